"use strict";

// Plots of two metrics: the best points of each curve under one load on one server, and on demand all of them.

// The points under the load and on the server that most of them have, unless the reader has chosen a load or
// server, or curves by it.
function ofOneLoad(points, facets, state) {
  const isOwn = String(state.by) !== String(state.standard.by);
  const isChosen = (id) => state.chosen.has(id) || (isOwn && state.by.includes(id));
  if (isChosen("series")) return points;
  const ids = CONDITIONS.filter((id) => facets.some((facet) => facet.id === id));
  const kept = ids.some(isChosen) ? points : underOneLoad(points, facets, ids);
  return isChosen("server") ? kept : onOneServer(kept);
}

// What says nothing of its server is kept.
function onOneServer(points) {
  const counts = new Map();
  for (const { server } of points) if (server) counts.set(server, (counts.get(server) ?? 0) + 1);
  const most = Math.max(...counts.values());
  const kept = [...counts.keys()].find((server) => counts.get(server) === most);
  return points.filter(({ server }) => !server || server === kept);
}

function underOneLoad(points, facets, ids) {
  const groups = new Map();
  for (const point of points) {
    const key = JSON.stringify(ids.map((id) => written(point[id])));
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(point);
  }
  const memory = facets.find(({ id }) => id === "ram")?.options ?? [];
  const worth = (group) => [
    group.length,
    new Set(group.map((point) => point.algorithm)).size,
    memory.indexOf(written(group[0]?.ram)), // in ascending order, the machine's own last
  ];
  const isWorthMore = (one, other) => {
    const first = one.findIndex((value, i) => value !== other[i]);
    return first >= 0 && one[first] > other[first];
  };
  return [...groups.values()].reduce((best, group) => (isWorthMore(worth(group), worth(best)) ? group : best), []);
}

const isShare = (column) => column.kind === "share";

class Frontier {
  constructor(site, chart, isOfAll) {
    Object.assign(this, { site, chart, isOfAll, isRaw: isOfAll });
  }

  axis(id, scale) {
    const column = this.site.column(id);
    return { label: column.label, scale, ...(isShare(column) && { limit: 1, show: showShare }) };
  }

  describe() {
    const { x, y, better } = this.chart;
    const every = this.site.kept.filter((point) => drawable(point[x]) && drawable(point[y]));
    const points = this.isRaw ? every : ofOneLoad(every, this.site.facets, this.site.state);
    const differing = this.isOfAll ? [] : mixed(this.site.facets, points, this.site.state.by);
    // A point found for a recall is drawn even where others of its curve beat it, if they are of one kind.
    const stays = (point) => this.isRaw || (isNumber(point.found) && !differing.length);
    const curves = this.site.curves.group(points).map(({ name, style, points: own }) => {
      const best = this.isOfAll ? [] : frontierOf(own, x, y, better);
      const known = new Set(best);
      const others = own.filter((point) => !known.has(point) && stays(point));
      const mark = (point, isJoined) => ({
        ...this.site.mark(point, x, y),
        isJoined,
        ...(isJoined || (stays(point) && !this.isRaw) ? {} : { xBar: null, yBar: null }),
        isFaded: !isJoined && (this.isRaw || !isNumber(point.found)),
        ring: isNumber(point.found),
      });
      const marks = [...others.map((point) => mark(point, false)), ...best.map((point) => mark(point, true))];
      return { name, style, marks };
    });
    return { x: this.axis(x, "linear"), y: this.axis(y, "log"), curves, note: this.note(points, every, differing) };
  }

  note(points, every, differing) {
    const said = [];
    if (points.length < every.length) {
      const known = [...CONDITIONS, "server"].filter((id) => this.site.facets.some((facet) => facet.id === id));
      const shown = nameOf(points.find(({ server }) => server) ?? points[0], known);
      const left = numbers.format(every.length - points.length);
      const others = known.includes("server") ? "other loads or on other servers" : "other loads";
      said.push(`Shown: ${shown}. For the ${left} points under ${others}, use the filters or All points.`);
    }
    if (differing.length)
      said.push(`A curve joins the best of its points, whatever their ${labelsOf(differing)}.`);
    const found = [...new Set(points.map((point) => point.found).filter(isNumber))].sort();
    if (found.length) said.push(`Rings: found for a recall of ${found.map(showShare).join(" or ")}.`);
    if (points.some((point) => [this.chart.x, this.chart.y].some((id) => point.bars[id])))
      said.push("Bars: 95% intervals.");
    return said.join(" ");
  }
}

const labelsOf = (facets) => facets.map((facet) => withoutCapital(facet.label)).join(", ");
