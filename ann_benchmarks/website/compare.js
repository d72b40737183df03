"use strict";

// Plots at a recall: by available RAM, by clients, by version. Of several indexes the fastest counts.

const COMPARISONS = {
  ram: {
    without: ["ram", "buffers"],
    place: (point) => (isNumber(point.ramat) ? point.ramat : null),
    axis: (values) => ({ label: "Available RAM", scale: "log", places: values, show: showSize }),
    guides: indexSizes,
    says: "Dotted: the size of an index. Tiers with all of the machine's RAM stand at what was measured.",
  },
  clients: {
    without: ["clients"],
    place: (point) => (isNumber(point.clients) ? point.clients : null),
    axis: (values) => ({ label: "Clients", scale: "log", places: values }),
  },
  versions: {
    without: [...VERSIONS, "server"],
    and: ["form", "built"],
    place: versionOf,
    axis: (values) => ({ label: "Version", ...categories(values) }),
  },
};

// Names at equal distances, as an axis.
function categories(names) {
  const places = names.map((_, i) => i);
  return { scale: "linear", isFixed: true, places, show: (i) => names[i] ?? "" };
}

function versionOf(point, site) {
  const known = VERSIONS.filter((id) => site.facets.some((facet) => facet.id === id) && point[id]);
  return known.map((id) => (known.length > 1 ? `${VERSION_NAMES.get(id)} ${point[id]}` : point[id])).join(" · ") || null;
}

function indexSizes(points) {
  const sizes = new Map();
  for (const { algorithm, indexsize } of points)
    if (indexsize > 0) sizes.set(algorithm, Math.max(sizes.get(algorithm) ?? 0, indexsize * 1024));
  return [...sizes].map(([algorithm, x]) => ({ x, label: `index of ${algorithm}` }));
}

class Comparison {
  constructor(site, kind, metric) {
    Object.assign(this, { site, metric, kind: COMPARISONS[kind] });
    this.isOrdered = kind === "versions";
    this.places = new Map(site.points.map((point) => [point, this.kind.place(point, site)]));
    // All places there are, so that a filter leaves them where they are.
    const known = [...new Set(this.places.values())].filter((place) => place !== null);
    this.known = this.isOrdered
      ? known.sort((a, b) => a.localeCompare(b, "en", { numeric: true }))
      : known.sort((a, b) => a - b);
  }

  // A metric that no point has, such as a percentile of too few queries, is no column of the page either.
  get isOfInterest() {
    return this.known.length > 1 && this.site.points.some((point) => this.isDrawn(point));
  }

  isDrawn(point) {
    const isPlaced = this.places.get(point) !== null && isNumber(point.recall) && point.qps > 0;
    return isPlaced && drawable(point[this.metric]);
  }

  by() {
    const { facets, state } = this.site;
    const asked = state.by.includes("series") ? [...IN_SERIES, ...state.by] : state.by;
    const wanted = new Set([...asked, ...(this.kind.and ?? [])]);
    const without = ["series", ...this.kind.without];
    return facets.map((facet) => facet.id).filter((id) => wanted.has(id) && !without.includes(id));
  }

  describe() {
    const { site, kind, metric } = this;
    const at = Math.max(site.state.at, site.state.least ?? 0);
    const points = site.kept.filter((point) => this.isDrawn(point));
    const by = this.by();
    const curves = site.curvesBy(by).group(points).map(({ name, style, points: own }) => {
      const of = new Map();
      for (const point of own) of.set(this.places.get(point), [...(of.get(this.places.get(point)) ?? []), point]);
      const found = [...of].map(([place, there]) => [place, atRecall(there, at, site.facets)]);
      const marks = found.filter(([, one]) => one).map(([place, { point, qps, bar }]) => ({
        ...site.mark(point, null, metric),
        ...(metric === "qps" ? { y: qps, yBar: bar } : {}),
        x: this.isOrdered ? this.known.indexOf(place) : place,
        isJoined: true,
      }));
      return { name, style, marks: marks.sort((a, b) => a.x - b.x) };
    }).filter(({ marks }) => marks.length);
    return {
      x: { isFixed: false, ...kind.axis(this.known) },
      y: { label: site.column(metric).label, scale: "log" },
      curves,
      guides: kind.guides?.(points),
      note: this.note(points, by, at),
    };
  }

  note(points, by, at) {
    const differing = mixed(this.site.facets, points, [...by, ...this.kind.without]);
    const whatever = differing.length ? `, whatever its ${labelsOf(differing)}` : "";
    const how = this.metric === "qps" ? "between the points closest to it" : "at the point closest to it";
    return `At a recall of ${showShare(at)}, ${how}: the fastest index${whatever}. ${this.kind.says ?? ""}`;
  }
}

// Recall by query: the share of queries below each recall, of each curve's point next to a recall.

class Recalls {
  constructor(site) {
    this.site = site;
    this.tails = new Map(site.points.map((point, i) => [point, data.tails[i]]));
  }

  get isOfInterest() {
    return data.tails.some(Boolean);
  }

  describe() {
    const { site } = this;
    const at = Math.max(site.state.at, site.state.least ?? 0);
    const points = site.kept.filter((point) => this.tails.get(point) && isNumber(point.recall) && point.qps > 0);
    const curves = site.curvesBy(site.state.by).group(points).map(({ name, style, points: own }) => {
      const found = atRecall(own, at, site.facets);
      return { name, style, marks: found ? this.marks(found.point) : [] };
    });
    return {
      x: { label: "Recall of a query", scale: "linear", limit: 1, show: showShare },
      y: { label: "Share of queries below it", scale: "log", show: showShare },
      curves: curves.filter(({ marks }) => marks.length),
      note:
        `Of the point next to a recall of ${showShare(at)}; lower is better. Compare two curves only where their` +
        " mean recalls are nearly equal. A curve that misses nothing has no mark.",
    };
  }

  // A tail is the number of steps of recall, then how many queries have all of them, all but one and so on.
  marks(point) {
    const [steps, ...counts] = this.tails.get(point);
    const queries = counts.reduce((sum, count) => sum + count, 0);
    const marks = [];
    let below = queries;
    counts.forEach((count, missed) => {
      below -= count;
      if (below > 0)
        marks.push({ ...this.site.mark(point, null, null), x: (steps - missed) / steps, y: below / queries, isJoined: true });
    });
    return marks.reverse();
  }
}

// Plots by share of rows that pass a filter: throughput at a recall and a completeness, and what comes back at
// default settings. A curve is a strategy, of one load on one server, as results/filtered.py has it.

const COMPLETE = 0.99;

class UnderFilters {
  constructor(site, { kind, filters }) {
    Object.assign(this, { site, kind, isOfDefaults: filters === "defaults" });
    this.points = new Set(
      site.points.filter(
        (point) =>
          point.filterkind === kind && point.selectivity > 0 && (!this.isOfDefaults || point.defaults === 1),
      ),
    );
    this.known = [...new Set([...this.points].map(({ selectivity }) => selectivity))].sort((a, b) => a - b);
  }

  get isOfInterest() {
    return this.known.length > 0;
  }

  describe() {
    const { site } = this;
    const at = Math.max(site.state.at, site.state.least ?? 0);
    const points = site.kept.filter((point) => this.points.has(point) && isNumber(point.recall));
    const curves = site.curvesBy(["algorithm"]).group(points).map(({ name, style, points: own }) => {
      const of = new Map();
      for (const point of own) of.set(point.selectivity, [...(of.get(point.selectivity) ?? []), point]);
      const marks = [...of].map(([x, there]) => (this.isOfDefaults ? this.returned(x, there) : this.fastest(x, there, at)));
      return { name, style, marks: marks.filter(Boolean).sort((a, b) => a.x - b.x) };
    });
    const show = (share) => `${numbers.format(Number((100 * share).toPrecision(2)))}%`;
    return {
      x: { label: "Share of rows that pass the filter", scale: "log", places: this.known, show },
      y: this.isOfDefaults
        ? { label: "Completeness at default settings", scale: "linear", limit: 1, show: showShare }
        : { label: "Queries per second", scale: "log" },
      curves: curves.filter(({ marks }) => marks.length),
      note: this.isOfDefaults
        ? "Rows returned / rows there were to return, where a query's settings are the server's own."
        : `At a recall of ${showShare(at)} and a completeness of ${COMPLETE}; a strategy that reaches them nowhere has no mark.`,
    };
  }

  // Of several indexes, the one with the best recall.
  returned(x, points) {
    const point = points.reduce((best, one) => (one.recall > best.recall ? one : best));
    return { ...this.site.mark(point, "selectivity", "completeness"), x, isJoined: true };
  }

  fastest(x, points, at) {
    const judged = new Map(points.filter(({ qps }) => qps > 0).map((point) => [withBoth(point, at), point]));
    const found = judged.size && atRecall([...judged.keys()], at, this.site.facets);
    if (!found) return null;
    return { ...this.site.mark(judged.get(found.point), null, "qps"), x, y: found.qps, yBar: found.bar, isJoined: true };
  }
}

// A point with the recall at which it stands for recall and completeness at once: that of `filtered_speed`.
function withBoth(point, at) {
  const asRecall = (completeness) => 1 - ((1 - at) / (1 - COMPLETE)) * (1 - completeness);
  const complete = asRecall(point.completeness);
  if (!(complete < 1)) return point;
  const [own, other] = [point.bars.recall, point.bars.completeness?.map(asRecall)];
  const stands = Math.min(point.recall, complete);
  const decisive = complete < point.recall ? other : own;
  const highest = Math.min(own?.[1] ?? point.recall, other?.[1] ?? complete);
  const bar = decisive && [Math.min(decisive[0], stands), Math.max(highest, stands)];
  return { ...point, recall: stands, bars: { ...point.bars, recall: bar } };
}
