"use strict";

// How a plot answers to a mouse, a finger and the keyboard: details of a point, and zoom.

const NEAR = 40; // pixels from a point within which it is the one pointed at
const CLICK = 5; // pixels that a pointer may move and still not drag

class Pointing {
  constructor(chart) {
    this.chart = chart;
    this.active = null;
    const { svg } = chart;
    svg.addEventListener("pointerdown", (event) => this.press(event));
    svg.addEventListener("pointermove", (event) => this.move(event));
    svg.addEventListener("pointerup", (event) => this.release(event));
    svg.addEventListener("pointercancel", () => this.endDrag());
    // A finger that is lifted leaves, and what it tapped at stays.
    svg.addEventListener("pointerleave", (event) => {
      if (!this.drag && !this.isPinned && event.pointerType !== "touch") this.show(null);
    });
    svg.addEventListener("dblclick", () => chart.setZoom(null));
    svg.addEventListener("keydown", (event) => this.key(event));
    svg.addEventListener("blur", () => this.isPinned || this.show(null));
  }

  clear() {
    this.endDrag();
    this.show(null);
  }

  // A pinned point has all its details, which stay until another one is pressed.
  show(spot, isPinned = false) {
    const { chart } = this;
    this.active = spot;
    this.isPinned = Boolean(spot && isPinned);
    chart.tip.classList.toggle("pinned", this.isPinned);
    chart.tip.hidden = !spot;
    chart.ring?.setAttribute("visibility", spot ? "visible" : "hidden");
    if (!spot) return;
    chart.ring.setAttribute("cx", spot.px);
    chart.ring.setAttribute("cy", spot.py);
    const close = button("×", () => this.show(null), { class: "close", "aria-label": "Close" });
    const more = this.isPinned ? [] : [element("em", {}, "Press for more")];
    chart.tip.replaceChildren(close, element("strong", {}, spot.name), ...spot.mark.told(!isPinned), ...more);
    const [plot, root] = [chart.svg.getBoundingClientRect(), chart.root.getBoundingClientRect()];
    const across = plot.left - root.left + (spot.px * plot.width) / chart.width;
    const down = plot.top - root.top + spot.py;
    const { offsetWidth: width, offsetHeight: height } = chart.tip;
    const whole = chart.root.clientWidth;
    const sides = [across + 14, across - width - 14].filter((left) => left >= 0 && left + width <= whole);
    const [left, top] = sides.length
      ? [sides[0], down - height / 2]
      : [Math.min(Math.max(0, across - width / 2), whole - width), down + 14];
    chart.tip.style.left = `${left}px`;
    chart.tip.style.top = `${Math.max(0, top)}px`;
  }

  place(event) {
    const area = this.chart.svg.getBoundingClientRect();
    return [((event.clientX - area.left) * this.chart.width) / area.width, event.clientY - area.top];
  }

  nearest([px, py]) {
    const distance = (spot) => Math.hypot(spot.px - px, spot.py - py);
    let best = null;
    for (const spot of this.chart.spots) if (distance(spot) < (best ? distance(best) : NEAR)) best = spot;
    return best;
  }

  press(event) {
    if (event.button !== 0 || !this.chart.axes) return;
    this.drag = { from: this.place(event), rect: shape("rect", { class: "zoom" }) };
    this.chart.svg.append(this.drag.rect);
    if (event.pointerType === "touch") return; // it has the pointer already
    try {
      this.chart.svg.setPointerCapture(event.pointerId);
    } catch {
      // The pointer is gone already; the drag then ends at the edge of the plot.
    }
  }

  // A drag along one axis zooms that axis only.
  dragged(event) {
    const { left, right, top, bottom } = this.chart.box;
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
    if (!this.chart.axes) return;
    if (!this.drag) {
      if (!this.isPinned) this.show(this.nearest(this.place(event)));
      return;
    }
    const area = this.dragged(event);
    if (!area) return;
    this.show(null);
    const { xs, ys } = area;
    const attributes = { x: xs[0], y: ys[0], width: xs[1] - xs[0], height: ys[1] - ys[0] };
    for (const [key, value] of Object.entries(attributes)) this.drag.rect.setAttribute(key, value);
  }

  release(event) {
    if (!this.drag) return;
    const area = this.dragged(event);
    this.endDrag();
    if (area) {
      const { x, y } = this.chart.axes;
      this.chart.setZoom({ x: area.xs.map(x.value, x), y: [...area.ys].reverse().map(y.value, y) });
    } else this.show(this.nearest(this.place(event)), true);
  }

  endDrag() {
    this.drag?.rect.remove();
    this.drag = null;
  }

  key(event) {
    if (!this.chart.axes || event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      ArrowRight: () => this.step(1, 0),
      ArrowLeft: () => this.step(-1, 0),
      ArrowDown: () => this.step(0, 1),
      ArrowUp: () => this.step(0, -1),
      "+": () => this.zoomBy(0.5),
      "=": () => this.zoomBy(0.5),
      "-": () => this.zoomBy(2),
      0: () => this.chart.setZoom(null),
      Enter: () => this.show(this.active, !this.isPinned),
      Escape: () => this.show(null),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  // Along a curve, or across to the nearest point of the next one.
  step(along, across) {
    const { spots } = this.chart;
    if (!spots.length) return;
    if (!this.active) {
      this.show(spots[0]);
      return;
    }
    const names = [...new Set(spots.map((spot) => spot.name))];
    const next = names.indexOf(this.active.name) + across;
    const name = names[(next + names.length) % names.length];
    const own = spots.filter((spot) => spot.name === name).sort((a, b) => a.px - b.px);
    if (across) {
      const gap = (spot) => Math.abs(spot.px - this.active.px);
      this.show(own.reduce((best, spot) => (gap(spot) < gap(best) ? spot : best)));
    } else {
      const at = own.indexOf(this.active);
      this.show(own[Math.min(own.length - 1, Math.max(0, at + along))]);
    }
  }

  zoomBy(factor) {
    const { axes, box } = this.chart;
    const { left, right, top, bottom } = box;
    const keep = this.active;
    const [cx, cy] = keep ? [keep.px, keep.py] : [(left + right) / 2, (top + bottom) / 2];
    this.chart.setZoom({
      x: [left, right].map((edge) => axes.x.value(cx + (edge - cx) * factor)),
      y: [bottom, top].map((edge) => axes.y.value(cy + (edge - cy) * factor)),
    });
    const { told, x, y } = keep?.mark ?? {};
    if (told) this.show(this.chart.spots.find(({ mark }) => mark.x === x && mark.y === y) ?? null);
  }
}
