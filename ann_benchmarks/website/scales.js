"use strict";

// Curves and marks. A style is [colour, marker, dash]; the markers are those of plot.py, in its order.

const MARKERS = [
  "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
  "M-3.6,-3.6h7.2v7.2h-7.2z",
  "M0,-4.8L4.4,3.4H-4.4z",
  "M0,-5L5,0L0,5L-5,0z",
  "M0,4.8L4.4,-3.4H-4.4z",
  "M-1.6,-4.8h3.2v3.2h3.2v3.2h-3.2v3.2h-3.2v-3.2h-3.2v-3.2h3.2z",
  "M0,-2.2L2.2,-4.4L4.4,-2.2L2.2,0L4.4,2.2L2.2,4.4L0,2.2L-2.2,4.4L-4.4,2.2L-2.2,0L-4.4,-2.2L-2.2,-4.4z",
  "M0,-4.8L4.6,-1.5L2.8,3.9H-2.8L-4.6,-1.5z",
];
const COLORS = 7;

const data = JSON.parse(document.getElementById("data").textContent);
const colorOf = (style) => `var(--series-${style[0]})`;

function curvePath(style, places) {
  const d = places.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
  const dash = data.dashes[style[2]] || "none";
  return shape("path", { class: "curve", d, style: `stroke: ${colorOf(style)}; stroke-dasharray: ${dash}` });
}

function markPath(style, x, y, attributes = {}) {
  return shape("path", {
    class: "mark",
    d: MARKERS[style[1]],
    transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`,
    style: `fill: ${colorOf(style)}`,
    ...attributes,
  });
}

function sample(style, isJoined) {
  const svg = shape("svg", { viewBox: "0 0 34 14", "aria-hidden": "true" });
  if (isJoined) svg.append(curvePath(style, [[0, 7], [34, 7]]));
  svg.append(markPath(style, 17, 7));
  return svg;
}

// Axes: from values to pixels and back, and their ticks.

const UNIT = { linear: (value) => value, log: Math.log10 };
const INVERSE = { linear: (value) => value, log: (value) => 10 ** value };
const MOST_FOR_BARS = 0.1; // by which bars may make an axis longer at either end
const NARROWEST = 0.02; // range of an axis of shares, on which less is mostly chance

function linearTicks(low, high, wanted) {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(i * step + 0); // which is no -0
  return ticks;
}

function logTicks(low, high, wanted) {
  const decades = Math.log10(high / low);
  if (decades < 0.7) return linearTicks(low, high, wanted).filter((tick) => tick > 0);
  const every = Math.ceil(decades / wanted);
  const within = decades > 3 ? [1] : decades > 1.3 ? [1, 2, 5] : [1, 1.5, 2, 3, 5, 7];
  const ticks = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e += every)
    for (const m of within) ticks.push(m * 10 ** e);
  return ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

// `values` are those of the points, `bars` the ends of their intervals; `places` are the only ticks, if given.
class Axis {
  constructor(values, scale, { zoom = null, limit = null, bars = [], places = null, show = showNumber } = {}) {
    Object.assign(this, { scale, limit, places, show, unit: UNIT[scale] });
    if (zoom) {
      [this.low, this.high] = zoom;
      return;
    }
    const units = values.map(this.unit);
    let [low, high] = [Math.min(...units), Math.max(...units)];
    if (limit !== null && high - low < NARROWEST) {
      const middle = Math.min((low + high) / 2, limit - NARROWEST / 2);
      [low, high] = [middle - NARROWEST / 2, middle + NARROWEST / 2];
    }
    const room = MOST_FOR_BARS * (high - low);
    const [first, last] = [low, high];
    for (const end of bars.map(this.unit)) {
      if (end < low) low = Math.max(end, first - room);
      if (end > high) high = Math.min(end, last + room);
    }
    const pad = 0.04 * (high - low) || 0.05 * Math.abs(high) || 0.5;
    [this.low, this.high] = [low - pad, high + pad].map(INVERSE[scale]);
  }

  range(start, end) {
    const [low, high] = [this.unit(this.low), this.unit(this.high)];
    this.at = (value) => start + ((this.unit(value) - low) / (high - low)) * (end - start);
    this.value = (at) => INVERSE[this.scale](low + ((at - start) / (end - start)) * (high - low));
  }

  ticks(wanted) {
    if (this.places) return this.places.filter((tick) => tick >= this.low && tick <= this.high);
    const ticks = (this.scale === "log" ? logTicks : linearTicks)(this.low, this.high, wanted);
    return this.limit === null ? ticks : ticks.filter((tick) => tick <= this.limit + 1e-9);
  }
}
