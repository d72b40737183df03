"use strict";

// Figures that others have published, laid over those by RAM. Numbers of two machines cannot be compared, shapes
// can: both are drawn as shares, of the size of the index and of the value at the most RAM.

function addOthers(section, state) {
  if (!data.others.length) return;
  const options = data.others.map(({ id, label }) => element("option", { value: id }, `${id} (${label})`));
  const select = element("select", {}, element("option", { value: "" }, "nothing"), ...options);
  select.addEventListener("change", () => state.change(() => (state.over = select.value || null)));
  const draw = () => (select.value = state.over ?? "");
  draw();
  state.listeners.push(draw);
  section.querySelector("h2").after(element("label", { class: "over" }, "Lay over what was published:", select));
}

function withOthers(plot, root, state) {
  const other = root.dataset.compare === "ram" && data.others.find(({ id }) => id === state.over);
  if (!other) return plot;
  const own = plot.curves.map((curve) => ({ ...curve, marks: asShares(curve.marks) }));
  const theirs = other.lines.map((line, i) => ({
    name: `${line.name} (published)`,
    style: [OTHER, i % MARKERS.length, (i + 1) % data.dashes.length],
    marks: line[root.dataset.metric].map(([x, y]) => ({ x, y, isJoined: true, told: () => toldOfOther(other, x, y) })),
  }));
  return {
    x: { label: "Available RAM / size of the index", scale: plot.x.scale },
    y: { label: "Share of that at the most RAM", scale: plot.y.scale },
    curves: [...theirs, ...own.filter((curve) => curve.marks.length)],
    guides: [{ x: 1, label: "RAM = index" }],
    note: `Grey and hollow: ${other.label}. ${plot.note}`,
  };
}

function asShares(marks) {
  const last = marks.at(-1);
  const size = last.point.indexsize * 1024;
  if (!size) return [];
  return marks.map((mark) => ({
    ...mark,
    x: mark.x / size,
    y: mark.y / last.y,
    yBar: mark.yBar?.map((end) => end / last.y),
  }));
}

function toldOfOther(other, x, y) {
  const rows = [row("RAM / index", showNumber(x)), row("Share of that at the most RAM", showNumber(y))];
  return [element("em", {}, other.label), element("dl", {}, ...rows)];
}
