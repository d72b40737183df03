"use strict";

// Draws what the page's JSON describes. Every text goes into the page as text, never as markup.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const data = JSON.parse(document.getElementById("data").textContent);
  const NEAR = 40; // pixels from a point within which it is the one pointed at
  const CLICK = 5; // pixels that a pointer may move and still not drag
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

  function element(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  function shape(name, attributes = {}, ...children) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  function button(label, action, attributes = {}) {
    const node = element("button", { type: "button", ...attributes }, label);
    node.addEventListener("click", action);
    return node;
  }

  const format = new Intl.NumberFormat("en", { maximumSignificantDigits: 5 });
  const show = (value) => (value === null ? "–" : format.format(value));
  const color = (style) => `var(--series-${style.color})`;

  function curve(style, path) {
    return shape("path", {
      class: "curve",
      d: path,
      style: `stroke: ${color(style)}; stroke-dasharray: ${data.dashes[style.dash] || "none"}`,
    });
  }

  function mark(style, x, y, extra = {}) {
    return shape("path", {
      class: "mark",
      d: MARKERS[style.marker],
      transform: `translate(${x.toFixed(2)},${y.toFixed(2)})`,
      style: `fill: ${color(style)}`,
      ...extra,
    });
  }

  const line = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(2)},${y.toFixed(2)}`).join("");

  // --- axes ---------------------------------------------------------------------------------------------

  const unit = { linear: (v) => v, log: Math.log10 };
  const inverse = { linear: (v) => v, log: (v) => 10 ** v };

  function linearTicks(low, high, wanted) {
    const rough = (high - low) / wanted || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
    return ticks;
  }

  function logTicks(low, high, wanted) {
    const decades = Math.log10(high / low);
    if (decades < 0.7) return linearTicks(low, high, wanted).filter((t) => t > 0);
    const every = Math.ceil(decades / wanted);
    const within = decades > 3 ? [1] : decades > 1.3 ? [1, 2, 5] : [1, 1.5, 2, 3, 5, 7];
    const ticks = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e += every)
      for (const m of within) ticks.push(m * 10 ** e);
    return ticks.filter((t) => t >= low * 0.999 && t <= high * 1.001);
  }

  class Axis {
    constructor(values, scale, zoom, limit) {
      this.scale = scale;
      this.unit = unit[scale];
      this.limit = limit;
      if (zoom) [this.low, this.high] = zoom;
      else {
        const units = values.map(this.unit);
        const [low, high] = [Math.min(...units), Math.max(...units)];
        const pad = 0.04 * (high - low) || 0.05 * Math.abs(high) || 0.5;
        [this.low, this.high] = [inverse[scale](low - pad), inverse[scale](high + pad)];
      }
    }

    range(start, end) {
      const [low, high] = [this.unit(this.low), this.unit(this.high)];
      this.at = (value) => start + ((this.unit(value) - low) / (high - low)) * (end - start);
      this.value = (position) => inverse[this.scale](low + ((position - start) / (end - start)) * (high - low));
    }

    ticks(wanted) {
      const ticks = (this.scale === "log" ? logTicks : linearTicks)(this.low, this.high, wanted);
      return this.limit === null ? ticks : ticks.filter((t) => t <= this.limit + 1e-9);
    }
  }

  // --- charts -------------------------------------------------------------------------------------------

  const hidden = new Set(); // names of series, for all charts and the table of the page
  const redraw = []; // called when `hidden` changes

  function toggle(name) {
    if (!hidden.delete(name)) hidden.add(name);
    for (const action of redraw) action();
  }

  class Chart {
    constructor(root, chart, which, metrics, series) {
      Object.assign(this, { root, metrics, joined: which === "frontier", zoom: null, active: null });
      const index = (id) => metrics.findIndex((metric) => metric.id === id);
      [this.xIndex, this.yIndex] = [index(chart.x), index(chart.y)];
      [this.x, this.y] = [metrics[this.xIndex], metrics[this.yIndex]];
      this.scales = { x: "linear", y: "log" };
      this.series = series
        .map((one, i) => ({ ...one, points: chart[which][i].map((at) => this.point(one, one.points[at])) }))
        .filter((one) => one.points.length);
      this.clip = `clip-${chart.id}-${which}`;
      this.build();
      this.draw();
      redraw.push(() => this.draw());
      new ResizeObserver(() => this.root.clientWidth !== this.width && this.draw()).observe(root);
    }

    point(series, { name, values }) {
      return { series, name, values, x: values[this.xIndex], y: values[this.yIndex] };
    }

    build() {
      this.reset = button("Reset zoom", () => this.setZoom(null));
      this.scaleButtons = ["x", "y"].map((axis) =>
        button("", () => {
          this.scales[axis] = this.scales[axis] === "log" ? "linear" : "log";
          this.setZoom(null);
        }),
      );
      this.svg = shape("svg", {
        tabindex: "0",
        role: "application",
        "aria-label": `Plot of ${this.y.label} over ${this.x.label}. Arrow keys move between points.`,
      });
      this.legend = element("div", { class: "legend", role: "group", "aria-label": "Curves" });
      this.tip = element("div", { class: "tip", role: "status" });
      this.tip.hidden = true;
      const tools = element("div", { class: "tools" }, ...this.scaleButtons, this.reset);
      this.root.append(tools, this.svg, this.legend, this.tip);
      this.legendButtons = this.series.map(({ name, style }) => {
        const sample = shape("svg", { viewBox: "0 0 34 14", "aria-hidden": "true" });
        if (this.joined) sample.append(curve(style, "M0,7H34"));
        sample.append(mark(style, 17, 7));
        const node = button("", () => toggle(name), { "data-series": name });
        node.append(sample, name);
        return node;
      });
      this.legend.append(...this.legendButtons);
      this.svg.addEventListener("pointerdown", (event) => this.press(event));
      this.svg.addEventListener("pointermove", (event) => this.move(event));
      this.svg.addEventListener("pointerup", (event) => this.release(event));
      this.svg.addEventListener("pointercancel", () => this.endDrag());
      this.svg.addEventListener("pointerleave", () => this.drag || this.activate(null));
      this.svg.addEventListener("dblclick", () => this.setZoom(null));
      this.svg.addEventListener("keydown", (event) => this.key(event));
      this.svg.addEventListener("blur", () => this.activate(null));
    }

    visible() {
      return this.series.filter((one) => !hidden.has(one.name));
    }

    setZoom(zoom) {
      this.zoom = zoom;
      this.draw();
    }

    draw() {
      this.endDrag();
      this.activate(null);
      this.width = this.root.clientWidth;
      const height = Math.round(Math.max(260, Math.min(460, this.width * 0.6)));
      const visible = this.visible();
      this.legendButtons.forEach((node, i) => node.setAttribute("aria-pressed", !hidden.has(this.series[i].name)));
      this.scaleButtons.forEach((node, i) => {
        const axis = "xy"[i];
        node.textContent = `${axis}: ${this.scales[axis]}`;
        const other = this.scales[axis] === "log" ? "linear" : "log";
        node.setAttribute("aria-label", `${axis} axis is ${this.scales[axis]}, make it ${other}`);
      });
      this.reset.disabled = !this.zoom;
      this.svg.setAttribute("viewBox", `0 0 ${this.width} ${height}`);
      this.svg.style.height = `${height}px`;
      this.svg.replaceChildren();
      this.spots = [];
      if (!visible.length) {
        this.axes = null;
        this.svg.append(shape("text", { x: this.width / 2, y: height / 2, "text-anchor": "middle" }, "All curves are hidden"));
        return;
      }
      const points = visible.flatMap((one) => one.points);
      const limit = (metric) => (metric.share ? 1 : null);
      const x = new Axis(points.map((p) => p.x), this.scales.x, this.zoom?.x, limit(this.x));
      const y = new Axis(points.map((p) => p.y), this.scales.y, this.zoom?.y, limit(this.y));
      const yTicks = y.ticks(Math.max(3, Math.floor(height / 55)));
      const left = 34 + 7 * Math.max(2, ...yTicks.map((tick) => show(tick).length));
      const box = { left, right: this.width - 14, top: 12, bottom: height - 46 };
      x.range(box.left, box.right);
      y.range(box.bottom, box.top);
      this.axes = { x, y };
      this.box = box;
      this.drawAxes(x.ticks(Math.max(3, Math.floor((box.right - box.left) / 75))), yTicks);
      this.drawSeries(visible);
    }

    drawAxes(xTicks, yTicks) {
      const { left, right, top, bottom } = this.box;
      const { x, y } = this.axes;
      for (const tick of xTicks) {
        const at = x.at(tick);
        this.svg.append(
          shape("line", { class: "grid", x1: at, x2: at, y1: top, y2: bottom }),
          shape("text", { x: at, y: bottom + 17, "text-anchor": "middle" }, show(tick)),
        );
      }
      for (const tick of yTicks) {
        const at = y.at(tick);
        this.svg.append(
          shape("line", { class: "grid", x1: left, x2: right, y1: at, y2: at }),
          shape("text", { x: left - 7, y: at + 4, "text-anchor": "end" }, show(tick)),
        );
      }
      const middle = (top + bottom) / 2;
      this.svg.append(
        shape("path", { class: "axis", fill: "none", d: `M${left},${top}V${bottom}H${right}` }),
        shape("text", { class: "name", x: (left + right) / 2, y: bottom + 38, "text-anchor": "middle" }, this.x.label),
        shape(
          "text",
          { class: "name", "text-anchor": "middle", transform: `translate(14,${middle}) rotate(-90)` },
          this.y.label,
        ),
      );
    }

    drawSeries(visible) {
      const { left, right, top, bottom } = this.box;
      const { x, y } = this.axes;
      const room = 6; // so that a mark at the edge is whole
      const clip = shape(
        "clipPath",
        { id: this.clip },
        shape("rect", { x: left - room, y: top - room, width: right - left + 2 * room, height: bottom - top + 2 * room }),
      );
      const group = shape("g", { "clip-path": `url(#${this.clip})` });
      for (const { name, style, points } of visible) {
        const places = points.map((p) => [x.at(p.x), y.at(p.y)]);
        const one = shape("g", { "data-series": name });
        if (this.joined) one.append(curve(style, line(places)));
        places.forEach(([px, py], i) => {
          one.append(mark(style, px, py, this.joined ? {} : { opacity: 0.75 }));
          const inside = px >= left - room && px <= right + room && py >= top - room && py <= bottom + room;
          if (inside) this.spots.push({ ...points[i], px, py });
        });
        group.append(one);
      }
      this.ring = shape("circle", { class: "ring", r: 8, visibility: "hidden" });
      this.svg.append(clip, group, this.ring);
    }

    activate(spot) {
      this.active = spot;
      this.tip.hidden = !spot;
      this.ring?.setAttribute("visibility", spot ? "visible" : "hidden");
      if (!spot) return;
      this.ring.setAttribute("cx", spot.px);
      this.ring.setAttribute("cy", spot.py);
      const list = element("dl");
      this.metrics.forEach((metric, i) => {
        if (spot.values[i] !== null) list.append(element("dt", {}, metric.label), element("dd", {}, show(spot.values[i])));
      });
      this.tip.replaceChildren(element("strong", {}, spot.series.name), element("em", {}, spot.name), list);
      const [plot, root] = [this.svg.getBoundingClientRect(), this.root.getBoundingClientRect()];
      const across = plot.left - root.left + (spot.px * plot.width) / this.width;
      const down = plot.top - root.top + spot.py;
      const toLeft = across + this.tip.offsetWidth + 16 > this.root.clientWidth;
      this.tip.style.left = `${Math.max(0, toLeft ? across - this.tip.offsetWidth - 14 : across + 14)}px`;
      this.tip.style.top = `${Math.max(0, down - this.tip.offsetHeight / 2)}px`;
    }

    place(event) {
      const area = this.svg.getBoundingClientRect();
      return [((event.clientX - area.left) * this.width) / area.width, event.clientY - area.top];
    }

    nearest([px, py]) {
      const distance = (spot) => Math.hypot(spot.px - px, spot.py - py);
      let best = null;
      for (const spot of this.spots) if (distance(spot) < (best ? distance(best) : NEAR)) best = spot;
      return best;
    }

    press(event) {
      if (event.button !== 0 || !this.axes) return;
      this.drag = { from: this.place(event), rect: shape("rect", { class: "zoom" }) };
      this.svg.append(this.drag.rect);
      try {
        this.svg.setPointerCapture(event.pointerId);
      } catch {
        // The pointer is gone already; the drag then ends at the edge of the plot.
      }
    }

    dragged(event) {
      // A drag along one axis zooms that axis only.
      const { left, right, top, bottom } = this.box;
      const [ax, ay] = this.drag.from;
      const [bx, by] = this.place(event);
      const within = (low, high) => (value) => Math.min(high, Math.max(low, value));
      const wide = Math.abs(bx - ax) > 3 * CLICK;
      const tall = Math.abs(by - ay) > 3 * CLICK;
      if (!wide && !tall) return null;
      const xs = wide ? [ax, bx].map(within(left, right)).sort((a, b) => a - b) : [left, right];
      const ys = tall ? [ay, by].map(within(top, bottom)).sort((a, b) => a - b) : [top, bottom];
      return xs[1] - xs[0] > CLICK && ys[1] - ys[0] > CLICK ? { xs, ys } : null;
    }

    move(event) {
      if (!this.axes) return;
      if (!this.drag) {
        this.activate(this.nearest(this.place(event)));
        return;
      }
      const area = this.dragged(event);
      if (!area) return;
      this.activate(null);
      const { xs, ys } = area;
      const attributes = { x: xs[0], y: ys[0], width: xs[1] - xs[0], height: ys[1] - ys[0] };
      for (const [key, value] of Object.entries(attributes)) this.drag.rect.setAttribute(key, value);
    }

    release(event) {
      if (!this.drag) return;
      const area = this.dragged(event);
      this.endDrag();
      if (area) {
        const { x, y } = this.axes;
        this.setZoom({ x: area.xs.map(x.value), y: [...area.ys].reverse().map(y.value) });
      } else this.activate(this.nearest(this.place(event)));
    }

    endDrag() {
      this.drag?.rect.remove();
      this.drag = null;
    }

    key(event) {
      if (!this.axes || event.ctrlKey || event.metaKey || event.altKey) return;
      const actions = {
        ArrowRight: () => this.step(1, 0),
        ArrowLeft: () => this.step(-1, 0),
        ArrowDown: () => this.step(0, 1),
        ArrowUp: () => this.step(0, -1),
        "+": () => this.zoomBy(0.5),
        "=": () => this.zoomBy(0.5),
        "-": () => this.zoomBy(2),
        0: () => this.setZoom(null),
        Escape: () => this.activate(null),
      };
      if (!actions[event.key]) return;
      event.preventDefault();
      actions[event.key]();
    }

    step(along, across) {
      if (!this.spots.length) return;
      if (!this.active) {
        this.activate(this.spots[0]);
        return;
      }
      const names = [...new Set(this.spots.map((spot) => spot.series.name))];
      const next = names.indexOf(this.active.series.name) + across;
      const name = names[(next + names.length) % names.length];
      const own = this.spots.filter((spot) => spot.series.name === name).sort((a, b) => a.px - b.px);
      if (across) {
        const gap = (spot) => Math.abs(spot.px - this.active.px);
        this.activate(own.reduce((best, spot) => (gap(spot) < gap(best) ? spot : best)));
      } else {
        const at = own.findIndex((spot) => spot.px === this.active.px && spot.py === this.active.py);
        this.activate(own[Math.min(own.length - 1, Math.max(0, at + along))]);
      }
    }

    zoomBy(factor) {
      const { left, right, top, bottom } = this.box;
      const { x, y } = this.axes;
      const keep = this.active;
      const [cx, cy] = keep ? [keep.px, keep.py] : [(left + right) / 2, (top + bottom) / 2];
      this.setZoom({
        x: [left, right].map((edge) => x.value(cx + (edge - cx) * factor)),
        y: [bottom, top].map((edge) => y.value(cy + (edge - cy) * factor)),
      });
      if (keep) this.activate(this.spots.find((s) => s.series === keep.series && s.name === keep.name) ?? null);
    }
  }

  // --- table --------------------------------------------------------------------------------------------

  const csvCell = (value) => {
    const text = value === null ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };

  async function copy(text, node) {
    const label = node.textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // A page opened from a file may be denied the clipboard; the old way is not.
      const area = element("textarea", { "aria-hidden": "true" });
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    node.textContent = "Copied";
    setTimeout(() => (node.textContent = label), 1500);
  }

  class Table {
    constructor(root, metrics, series) {
      this.columns = [
        { label: "Curve", words: true, value: (row) => row.series.name },
        { label: "Parameters", words: true, value: (row) => row.name },
        ...metrics.map((metric, i) => ({ label: metric.label, value: (row) => row.values[i] })),
      ];
      this.rows = series.flatMap((one) => one.points.map((point) => ({ ...point, series: one })));
      this.sorted = { column: 0, descending: false };
      const buttons = [
        button("Copy CSV", (event) => copy(this.csv(), event.currentTarget)),
        button("Download CSV", () => this.download()),
      ];
      this.heads = this.columns.map((column, i) =>
        element("th", { scope: "col", ...(column.words && { class: "words" }) }, button("", () => this.sort(i))),
      );
      this.body = element("tbody");
      const table = element("table", {}, element("thead", {}, element("tr", {}, ...this.heads)), this.body);
      const scroll = { class: "scroll", tabindex: "0", role: "region", "aria-label": "Points" };
      root.append(element("div", { class: "tools" }, ...buttons), element("div", scroll, table));
      this.draw();
      redraw.push(() => this.draw());
    }

    sort(column) {
      const same = this.sorted.column === column;
      this.sorted = { column, descending: same ? !this.sorted.descending : !this.columns[column].words };
      this.draw();
    }

    ordered() {
      const { column, descending } = this.sorted;
      const { value, words } = this.columns[column];
      const sign = descending ? -1 : 1;
      return this.rows
        .filter((row) => !hidden.has(row.series.name))
        .sort((a, b) => {
          const [av, bv] = [value(a), value(b)];
          if (av === null || bv === null) return (av === null) - (bv === null);
          return sign * (words ? av.localeCompare(bv, "en", { numeric: true }) : av - bv);
        });
    }

    draw() {
      this.heads.forEach((head, i) => {
        const active = this.sorted.column === i;
        const arrow = active ? (this.sorted.descending ? " ▼" : " ▲") : "";
        head.firstChild.textContent = this.columns[i].label + arrow;
        head.setAttribute("aria-sort", active ? (this.sorted.descending ? "descending" : "ascending") : "none");
      });
      this.body.replaceChildren(
        ...this.ordered().map((row) =>
          element(
            "tr",
            {},
            ...this.columns.map(({ words, value }, i) => {
              const text = words ? value(row) : show(value(row));
              const content = i === 0 ? element("a", { href: row.series.href }, text) : text;
              return element("td", words ? { class: "words" } : {}, content);
            }),
          ),
        ),
      );
    }

    csv() {
      const lines = [this.columns.map((column) => column.label)];
      for (const row of this.ordered()) lines.push(this.columns.map((column) => column.value(row)));
      return lines.map((cells) => cells.map(csvCell).join(",")).join("\r\n") + "\r\n";
    }

    download() {
      const url = URL.createObjectURL(new Blob([this.csv()], { type: "text/csv" }));
      element("a", { href: url, download: `${document.title.replaceAll(/[^\w.-]+/g, "_")}.csv` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10000);
    }
  }

  // --- previews -----------------------------------------------------------------------------------------

  function preview(root, series) {
    const svg = shape("svg", { viewBox: "0 0 240 120", "aria-hidden": "true", preserveAspectRatio: "none" });
    svg.append(shape("path", { class: "axis", fill: "none", d: "M8,6V112H234" }));
    const points = series.flatMap((one) => one.points);
    if (points.length) {
      const x = new Axis(points.map(([v]) => v), "linear", null, null);
      const y = new Axis(points.map(([, v]) => v), "log", null, null);
      x.range(8, 234);
      y.range(112, 6);
      for (const { style, points: own } of series) {
        const places = own.map(([vx, vy]) => [x.at(vx), y.at(vy)]);
        if (places.length > 1) svg.append(curve(style, line(places)));
        else if (places.length) svg.append(mark(style, ...places[0]));
      }
    }
    root.append(svg);
  }

  // --- the page -----------------------------------------------------------------------------------------

  for (const root of document.querySelectorAll("[data-preview]")) preview(root, data.previews[root.dataset.preview]);
  for (const root of document.querySelectorAll("[data-chart]")) {
    const chart = data.charts.find((one) => one.id === root.dataset.chart);
    new Chart(root, chart, root.dataset.points, data.metrics, data.series);
  }
  for (const node of document.querySelectorAll("[data-copy]")) {
    node.addEventListener("click", () => copy(document.getElementById(node.dataset.copy).textContent, node));
  }
  const table = document.getElementById("table");
  if (table) new Table(table, data.metrics, data.series);
  document.documentElement.dataset.drawn = "yes";
})();
