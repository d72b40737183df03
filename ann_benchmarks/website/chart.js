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

// A plot. `describe` tells what is on it:
//   x, y    {label, scale: linear or log, limit, places, show, isFixed} (scales.js)
//   curves  [{name, style, marks: [{x, y, xBar, yBar, ring, isJoined, isFaded, told}]}], in drawing order
//   guides  [{x, label}], vertical lines
//   note    what to say below it

const ROOM = 6; // pixels around the plot, so that a mark at its edge is whole
const MOST_NAMES = 12; // in a legend before the rest is asked for

// What a legend calls curves: as people do, without the parts of their names that all of them share.
function legendTitles(names) {
  const parts = names.map((name) => name.split(", "));
  const isShared = (part) => names.length > 1 && parts.every((own) => own.includes(part));
  const kept = parts.map((own) => own.filter((part, i) => i === 0 || !isShared(part)));
  const titles = kept.map((own) => own.map((part) => data.names?.[part] ?? part).join(", "));
  return new Set(titles).size === titles.length ? titles : names;
}

const charts = [];

// Asks for all widths before it changes anything, so that the browser lays the page out once.
function drawCharts() {
  for (const chart of charts) chart.measure();
  for (const chart of charts) chart.draw();
}

class Chart {
  constructor(root, state, describe) {
    Object.assign(this, { root, state, describe, zoom: null, scales: {} });
    this.clip = `clip-${charts.push(this)}`;
    this.build();
    this.pointing = new Pointing(this);
    new ResizeObserver(() => this.measure() && this.draw()).observe(root);
  }

  build() {
    this.reset = button("Reset zoom", () => this.setZoom(null));
    this.scaleButtons = ["x", "y"].map((axis) =>
      button("", () => {
        this.scales[axis] = this.scaleOf(axis) === "log" ? "linear" : "log";
        this.setZoom(null);
      }),
    );
    this.svg = shape("svg", { class: "plot", tabindex: "0", role: "application" });
    this.legend = element("div", { class: "legend", role: "group", "aria-label": "Curves" });
    this.tip = element("div", { class: "tip", role: "status" });
    this.tip.hidden = true;
    this.noteLine = element("p", { class: "label" });
    const tools = element("div", { class: "tools" }, ...this.scaleButtons, this.reset);
    this.root.append(tools, this.svg, this.legend, this.noteLine, this.tip);
  }

  scaleOf(axis) {
    return this.scales[axis] ?? this.plot[axis].scale;
  }

  setZoom(zoom) {
    this.zoom = zoom;
    this.draw();
  }

  // Whether the width is another one than before.
  measure() {
    const before = this.width;
    this.width = this.root.clientWidth;
    return this.width !== before;
  }

  draw() {
    if (!this.width) return; // in a part of the page that is folded
    this.plot = this.describe();
    this.pointing.clear();
    this.height = Math.round(Math.max(260, Math.min(460, this.width * 0.6)));
    this.drawTools();
    this.drawLegend();
    const { x, y, note } = this.plot;
    this.svg.setAttribute("aria-label", `Plot of ${y.label} over ${x.label}. Arrow keys move between points.`);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.style.height = `${this.height}px`;
    this.svg.replaceChildren();
    this.noteLine.textContent = note ?? "";
    this.noteLine.hidden = !note;
    this.spots = [];
    this.axes = null;
    const visible = this.plot.curves.filter((curve) => !this.state.off.has(curve.name));
    if (visible.length) this.drawPlot(visible);
    else {
      const why = this.plot.curves.length ? "All curves are switched off" : "No point is left";
      this.svg.append(
        shape("text", { x: this.width / 2, y: this.height / 2, "text-anchor": "middle" }, why),
      );
    }
  }

  drawTools() {
    this.scaleButtons.forEach((node, i) => {
      const axis = "xy"[i];
      const scale = this.scaleOf(axis);
      node.textContent = `${axis}: ${scale}`;
      node.hidden = Boolean(this.plot[axis].isFixed);
      const other = scale === "log" ? "linear" : "log";
      node.setAttribute("aria-label", `${axis} axis is ${scale}, make it ${other}`);
    });
    this.reset.disabled = !this.zoom;
  }

  // The names stay where they are while one is switched on or off, so that the keyboard's focus does too.
  drawLegend() {
    const { curves } = this.plot;
    const names = curves.map((curve) => curve.name);
    if (String(names) !== this.legendNames) {
      this.legendNames = String(names);
      const isLong = names.length > MOST_NAMES && !this.isWhole;
      const titles = legendTitles(names);
      this.nameButtons = curves.slice(0, isLong ? MOST_NAMES : names.length).map(({ name, style, marks }, i) => {
        const node = button("", () => this.state.toggle(name), { "data-series": name });
        node.append(sample(style, marks.some((mark) => mark.isJoined)), titles[i]);
        return node;
      });
      const more = button(`${names.length - MOST_NAMES} more…`, () => {
        this.isWhole = true;
        this.legendNames = null;
        this.drawLegend();
      });
      const all = [
        button("all", () => this.state.switchAll(names, true), { "aria-label": "switch all curves on" }),
        button("none", () => this.state.switchAll(names, false), { "aria-label": "switch all curves off" }),
      ];
      this.legend.replaceChildren(
        ...this.nameButtons,
        ...(isLong ? [more] : []),
        ...(names.length > 2 ? [element("span", { class: "all" }, ...all)] : []),
      );
    }
    for (const node of this.nameButtons)
      node.setAttribute("aria-pressed", !this.state.off.has(node.dataset.series));
  }

  drawPlot(visible) {
    const marks = visible.flatMap((curve) => curve.marks);
    const axis = (name) => {
      const bars = marks.flatMap((mark) => mark[`${name}Bar`] ?? []);
      const values = marks.map((mark) => mark[name]);
      const scale = this.scaleOf(name);
      const ends = scale === "log" ? bars.filter((end) => end > 0) : bars;
      return new Axis(values, scale, { ...this.plot[name], bars: ends, zoom: this.zoom?.[name] });
    };
    const [x, y] = [axis("x"), axis("y")];
    const yTicks = y.ticks(Math.max(3, Math.floor(this.height / 55)));
    const left = 34 + 7 * Math.max(2, ...yTicks.map((tick) => y.show(tick).length));
    this.box = { left, right: this.width - 14, top: 12, bottom: this.height - 46 };
    x.range(this.box.left, this.box.right);
    y.range(this.box.bottom, this.box.top);
    this.axes = { x, y };
    this.drawAxes(x.ticks(Math.max(3, Math.floor((this.box.right - left) / 75))), yTicks);
    this.drawGuides();
    this.drawCurves(visible);
  }

  drawAxes(xTicks, yTicks) {
    const { left, right, top, bottom } = this.box;
    const { x, y } = this.axes;
    let free = -Infinity; // where the next text below the axis may begin
    for (const tick of xTicks) {
      const at = x.at(tick);
      this.svg.append(shape("line", { class: "grid", x1: at, x2: at, y1: top, y2: bottom }));
      const text = x.show(tick);
      const half = 3.4 * text.length;
      const middle = Math.max(half, Math.min(at, this.width - half));
      if (middle - half < free) continue;
      free = middle + half + 4;
      this.svg.append(shape("text", { x: middle, y: bottom + 17, "text-anchor": "middle" }, text));
    }
    for (const tick of yTicks) {
      const at = y.at(tick);
      this.svg.append(
        shape("line", { class: "grid", x1: left, x2: right, y1: at, y2: at }),
        shape("text", { x: left - 7, y: at + 4, "text-anchor": "end" }, y.show(tick)),
      );
    }
    const middle = (top + bottom) / 2;
    const { label } = this.plot.y;
    const fits = 6.2 * label.length < 2 * middle; // the title above has all of it
    const centered = { class: "name", "text-anchor": "middle" };
    this.svg.append(
      shape("path", { class: "axis", d: `M${left},${top}V${bottom}H${right}` }),
      shape("text", { ...centered, x: (left + right) / 2, y: bottom + 38 }, this.plot.x.label),
      shape("text", { ...centered, transform: `translate(14,${middle}) rotate(-90)` }, fits ? label : label.split(/,| \(/)[0]),
    );
  }

  drawGuides() {
    const { left, right, top, bottom } = this.box;
    (this.plot.guides ?? []).forEach(({ x, label }, i) => {
      const at = this.axes.x.at(x);
      if (at < left || at > right) return;
      const isRight = at > (left + right) / 2;
      const place = { x: at + (isRight ? -4 : 4), y: top + 12 + 14 * i, "text-anchor": isRight ? "end" : "start" };
      this.svg.append(
        shape("line", { class: "guide", x1: at, x2: at, y1: top, y2: bottom }),
        shape("text", place, label),
      );
    });
  }

  drawCurves(visible) {
    const { left, right, top, bottom } = this.box;
    const { x, y } = this.axes;
    const area = { x: left - ROOM, y: top - ROOM, width: right - left + 2 * ROOM, height: bottom - top + 2 * ROOM };
    const clip = shape("clipPath", { id: this.clip }, shape("rect", area));
    const group = shape("g", { "clip-path": `url(#${this.clip})` });
    const isInside = (px, py) =>
      px >= area.x && px <= area.x + area.width && py >= area.y && py <= area.y + area.height;
    for (const { name, style, marks } of visible) {
      const places = marks.map((mark) => [x.at(mark.x), y.at(mark.y)]);
      const joined = places.filter((_, i) => marks[i].isJoined);
      const one = shape("g", { "data-series": name });
      if (joined.length) one.append(curvePath(style, joined));
      marks.forEach((mark, i) => {
        const [px, py] = places[i];
        if (mark.yBar) one.append(this.bar(style, px, px, ...mark.yBar.map((end) => this.barEnd(y, end))));
        if (mark.xBar) one.append(this.bar(style, ...mark.xBar.map((end) => this.barEnd(x, end)), py, py));
        const stroke = `stroke: ${colorOf(style)}`;
        if (mark.ring) one.append(shape("circle", { class: "found", cx: px, cy: py, r: 7.5, style: stroke }));
        one.append(markPath(style, px, py, mark.isFaded ? { opacity: 0.7 } : {}));
        if (isInside(px, py)) this.spots.push({ name, mark, px, py });
      });
      group.append(one);
    }
    this.ring = shape("circle", { class: "ring", r: 8, visibility: "hidden" });
    this.svg.append(clip, group, this.ring);
  }

  // An interval may reach down to 0, which is infinitely far away on a logarithmic axis.
  barEnd(axis, value) {
    return axis.at(axis.scale === "log" ? Math.max(value, axis.low / 10) : value);
  }

  bar(style, x1, x2, y1, y2) {
    return shape("line", { class: "bar", x1, x2, y1, y2, style: `stroke: ${colorOf(style)}` });
  }
}
