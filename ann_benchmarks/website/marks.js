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
const OTHER = "other"; // the colour of another machine's figures, whose marks are hollow

function curvePath(style, places) {
  const d = places.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
  const dash = data.dashes[style[2]] || "none";
  return shape("path", { class: "curve", d, style: `stroke: ${colorOf(style)}; stroke-dasharray: ${dash}` });
}

function markPath(style, x, y, attributes = {}, size = 1) {
  return shape("path", {
    class: "mark",
    d: MARKERS[style[1]],
    transform: `translate(${x.toFixed(1)},${y.toFixed(1)})${size === 1 ? "" : ` scale(${size})`}`,
    style: style[0] === OTHER ? `fill: var(--surface); stroke: ${colorOf(style)}` : `fill: ${colorOf(style)}`,
    ...attributes,
  });
}

function sample(style, isJoined) {
  const svg = shape("svg", { viewBox: "0 0 34 14", "aria-hidden": "true" });
  if (isJoined) svg.append(curvePath(style, [[0, 7], [34, 7]]));
  svg.append(markPath(style, 17, 7));
  return svg;
}
