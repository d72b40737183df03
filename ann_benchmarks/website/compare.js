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
    const how = this.metric === "qps" ? "between the points next to it" : "at the point next to it";
    return `At a recall of ${showShare(at)}, ${how}: the fastest index${whatever}. ${this.kind.says ?? ""}`;
  }
}
