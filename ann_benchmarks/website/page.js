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

// A page of results: what is on it, and what is left of it by the filters.

class Site {
  constructor() {
    this.columns = data.points.columns.filter((column) => column.label);
    this.byId = new Map(data.points.columns.map((column) => [column.id, column]));
    this.points = decoded(data.points);
    this.facets = facetsOf(this.columns, this.points);
    this.state = new State(this.facets, this.points, data.target);
    this.known = new Map(); // curves by what tells them apart
    this.filter();
    this.state.listeners.push(() => this.filter());
  }

  filter() {
    const { state, points } = this;
    this.kept = points.filter((point) => state.keeps(point));
    this.curves = this.curvesBy(state.by);
  }

  curvesBy(by) {
    const key = String(by);
    if (!this.known.has(key)) this.known.set(key, new Curves(this.points, by));
    return this.known.get(key);
  }

  column(id) {
    return this.byId.get(id);
  }

  // The points that are left, without those of curves that are switched off.
  visible() {
    return this.kept.filter((point) => !this.state.off.has(this.curves.name(point)));
  }

  mark(point, x, y) {
    const told = (isBrief) => toldOf(point, this.columns, this.facets, isBrief);
    return { point, x: point[x], y: point[y], xBar: point.bars[x], yBar: point.bars[y], told };
  }
}

function drawSite() {
  const site = new Site();
  const { state } = site;
  if (site.points.length) new Filters(document.getElementById("filtering"), site);
  for (const root of document.querySelectorAll("[data-chart]")) {
    const chart = data.charts.find((one) => one.id === root.dataset.chart);
    const frontier = new Frontier(site, chart, root.dataset.points === "every");
    const drawn = new Chart(root, state, () => frontier.describe());
    if (!frontier.isOfAll) addRaw(drawn, frontier);
  }
  const comparisons = [
    ["[data-compare]", (root) => new Comparison(site, root.dataset.compare, root.dataset.metric)],
    ["[data-recalls]", () => new Recalls(site)],
    ["[data-filters]", (root) => new UnderFilters(site, root.dataset)],
  ];
  for (const [selector, made] of comparisons)
    for (const root of document.querySelectorAll(selector)) {
      const comparison = made(root);
      if (!comparison.isOfInterest) continue;
      reveal(root);
      new Chart(root, state, () => comparison.describe());
    }
  const builds = document.getElementById("builds-list");
  if (builds && site.points.some((point) => drawable(point.build))) {
    reveal(builds);
    new Builds(builds, site);
  }
  drawCharts();
  state.listeners.push(drawCharts);
  if (site.points.length) new Table(document.getElementById("table"), site);
  keepAddress(state);
}

// A plot without data stays hidden, and so does a section without plots and the link to it.
function reveal(root) {
  const section = root.closest("section");
  for (const node of [root.closest(".panel"), section, ...document.querySelectorAll(`.jump [href="#${section.id}"]`)])
    if (node) node.hidden = false;
}

function addRaw(chart, frontier) {
  const raw = button("All points", () => {
    frontier.isRaw = !frontier.isRaw;
    raw.setAttribute("aria-pressed", frontier.isRaw);
    chart.draw();
  }, { "aria-pressed": "false" });
  chart.root.querySelector(".tools").prepend(raw);
}

// Links to places on the page leave the filters in the address, and those to the same dataset take them along.
function keepAddress(state) {
  for (const link of document.querySelectorAll(".jump a"))
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const place = document.querySelector(link.getAttribute("href"));
      place.closest("details")?.setAttribute("open", "");
      place.scrollIntoView();
    });
  for (const link of document.querySelectorAll("[data-sibling]"))
    link.addEventListener("click", () => (link.hash = state.address()));
  for (const node of document.querySelectorAll("[data-copy]"))
    node.addEventListener("click", () => copyText(document.getElementById(node.dataset.copy).textContent, node));
}

if (data.points) drawSite();
document.documentElement.dataset.drawn = "yes";
