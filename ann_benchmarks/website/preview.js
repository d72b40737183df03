"use strict";

// The small pictures of the index.

function drawPreview(root, curves) {
  const svg = shape("svg", { viewBox: "0 0 240 120", "aria-hidden": "true", preserveAspectRatio: "none" });
  svg.append(shape("path", { class: "axis", d: "M8,6V112H234" }));
  const points = curves.flatMap((curve) => curve.points);
  if (points.length) {
    const x = new Axis(points.map((point) => point[0]), "linear");
    const y = new Axis(points.map((point) => point[1]), "log");
    x.range(8, 234);
    y.range(112, 6);
    for (const { style, points: own } of curves) {
      const places = own.map((point) => [x.at(point[0]), y.at(point[1])]);
      if (places.length > 1) svg.append(curvePath(style, places));
      else if (places.length) svg.append(markPath(style, ...places[0]));
    }
  }
  root.append(svg);
}

for (const root of document.querySelectorAll("[data-preview]")) drawPreview(root, data.previews[root.dataset.preview]);
