"use strict";

// What is told of one point beside its mark: in brief, or all of it once it is asked for.

const NEVER_TOLD = [
  ...["series", "dataset", "parameters", "ramat", "epsilon", "largeepsilon", "rel", "distcomps"],
  ...["queriessize", "candidates"],
];
const BRIEF = ["recall", "qps", "p50", "p99", "found", "built", "build", "indexsize", "clients", "ram"];
const ALWAYS_TOLD = ["waits", "warnings"];

function toldOf(point, columns, facets, isBrief) {
  const isTold = ({ id, facet }) =>
    !NEVER_TOLD.includes(id) &&
    (!isBrief || [...BRIEF, ...ALWAYS_TOLD].includes(id) || (facet && facets.some((one) => one.id === id)));
  const list = element("dl");
  for (const column of columns) {
    const value = point[column.id];
    if (!isTold(column) || value === null || value === undefined) continue;
    const bar = point.bars[column.id];
    const show = column.kind === "share" ? showShare : showNumber;
    const interval = bar ? ` (${show(bar[0])}–${show(bar[1])})` : "";
    list.append(row(withoutUnit(column.label), shown(column.kind, value) + interval, column.id === "warnings"));
  }
  return [element("em", {}, point.parameters), list];
}

function row(label, text, isWarning = false) {
  return element("div", isWarning ? { class: "warning" } : {}, element("dt", {}, label), element("dd", {}, text));
}
