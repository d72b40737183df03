"use strict";

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
