"use strict";

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
