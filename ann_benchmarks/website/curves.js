"use strict";

// The results of the page: points with their columns by name, and what they can be filtered by.

const ROUNDING = 1e-9;
const NOTHING = ""; // how a filter writes that a point has no value

// A table as data.py writes it, as points; `point.bars[column]` is an interval.
function decoded({ count, columns }) {
  const points = Array.from({ length: count }, () => ({ bars: {} }));
  for (const column of columns) {
    const stored = column.words ? (column.at ?? Array(count).fill(column.same)) : column.values;
    points.forEach((point, i) => {
      if (column.words) point[column.id] = column.words[stored[i]] ?? null;
      else point[column.id] = stored ? stored[i] : column.same;
      if (isNumber(column.low?.[i])) point.bars[column.id] = [column.low[i], column.high[i]];
    });
  }
  return points;
}

const written = (value) => (value === null || value === undefined ? NOTHING : String(value));

// The values of a facet in their order, as they are written; a point without one comes last.
function facetValues(column, points) {
  const present = new Set(points.map((point) => written(point[column.id])));
  const known = column.words ?? [...present].filter((value) => value !== NOTHING).sort((a, b) => a - b);
  return [...known, NOTHING].filter((value) => present.has(value));
}

// Columns of versions, of the server and of extensions, with what people call them.
const VERSION_NAMES = new Map(
  (data.points?.columns ?? [])
    .filter(({ id }) => id.endsWith("_version"))
    .map(({ id, label }) => [id, label]),
);
const VERSIONS = [...VERSION_NAMES.keys()];

// Facets of which there is a choice: several values, or one that not all points have, which
// of a version would say no more than the algorithm does.
function facetsOf(columns, points) {
  return columns
    .filter((column) => column.facet)
    .map((column) => ({ ...column, options: facetValues(column, points) }))
    .filter(({ id, options }) => options.length > (VERSIONS.includes(id) && options.includes(NOTHING) ? 2 : 1));
}

const reaches = (point, recall) => point.recall >= recall - ROUNDING;
const drawable = (value) => isNumber(value) && value !== 0;

// Which points make a curve, how it is called and how it looks.

const FEW_CURVES = 12; // more of them are not made without being asked for
const CONDITIONS = (data.points?.columns ?? []).filter((column) => column.condition).map(({ id }) => id);
const IN_SERIES = ["dataset", "k", "algorithm", "server", ...CONDITIONS];
const SPLIT_ORDER = [...IN_SERIES.filter((id) => id !== "ram" && id !== "buffers"), ...VERSIONS, "form", "ram"];

const CURVE_WORDS = {
  clients: (value) => `${value} client${value === "1" ? "" : "s"}`,
  ram: (value) => `${value} RAM`,
  buffers: (value) => `shared_buffers ${value}`,
  cpus: (value) => `${value} CPU${value === "1" ? "" : "s"}`,
  k: (value) => `k = ${value}`,
  load: (value) => (value === "plain" ? "" : value),
};
for (const [id, name] of VERSION_NAMES) CURVE_WORDS[id] = (value) => `${name} ${value}`;

// The series as they are stored if they are few, otherwise as many facets as make few curves. Build arguments
// make none: as in plot.py a curve is the best of an algorithm, however it is built.
function standardCurves(facets, points) {
  const count = (ids) => new Set(points.map((point) => nameOf(point, ids))).size;
  const known = (id) => facets.some((facet) => facet.id === id);
  if (known("series") && count(["series"]) <= FEW_CURVES) return ["series"];
  const by = [];
  for (const id of SPLIT_ORDER) if (known(id) && (!by.length || count([...by, id]) <= FEW_CURVES)) by.push(id);
  return by;
}

const nameOf = (point, by) =>
  by
    .map((id) => [id, written(point[id])])
    .map(([id, value]) => (value === NOTHING ? "" : (CURVE_WORDS[id]?.(value) ?? value)))
    .filter(Boolean)
    .join(", ") || String(point[data.links.column]);

// Gives every curve of all points its style, so that it keeps it whatever is filtered out.
class Curves {
  constructor(points, by) {
    this.by = by;
    this.names = new Map(points.map((point) => [point, nameOf(point, by)]));
    this.styles = new Map();
    const alone = by.length === 1 && data.styles[by[0]];
    const colored = by.find((id) => data.styles[id] && new Set(points.map((point) => point[id])).size > 1)
      ?? (by.length ? null : data.links.column);
    const used = new Map();
    for (const point of points) {
      const name = this.names.get(point);
      if (this.styles.has(name)) continue;
      const own = data.styles[colored]?.[point[colored]];
      const turn = colored ? (used.get(own?.[0]) ?? 0) : Math.floor(this.styles.size / COLORS);
      used.set(own?.[0], turn + 1);
      if (alone && own) this.styles.set(name, own);
      else if (own) this.styles.set(name, [own[0], (own[1] + turn) % MARKERS.length, turn % data.dashes.length]);
      else {
        const i = this.styles.size;
        this.styles.set(name, [i % COLORS, i % MARKERS.length, turn % data.dashes.length]);
      }
    }
  }

  name(point) {
    return this.names.get(point);
  }

  // The points by curve, in the order of the names.
  group(points) {
    const groups = new Map();
    for (const point of points) {
      const name = this.name(point);
      if (!groups.has(name)) groups.set(name, { name, style: this.styles.get(name), points: [] });
      groups.get(name).points.push(point);
    }
    return [...groups.values()].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  }
}

// The points that no other one beats, from the best y to the worst; `better` is 1 where more is, else -1.
function frontierOf(points, x, y, [xBetter, yBetter]) {
  const sorted = [...points].sort((a, b) => yBetter * (b[y] - a[y]) || xBetter * (b[x] - a[x]));
  let best = -Infinity;
  return sorted.filter((point) => {
    if (xBetter * point[x] <= best) return false;
    best = xBetter * point[x];
    return true;
  });
}

// What differs between points that one curve joins.
function mixed(facets, points, by) {
  const told = by.includes("series") ? [...by, ...IN_SERIES] : by;
  return facets.filter(
    ({ id }) =>
      id !== "series" && !told.includes(id) && new Set(points.map((point) => written(point[id]))).size > 1,
  );
}
