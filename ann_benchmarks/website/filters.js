"use strict";

// The bar that stays in sight, and below it the filters, which apply to all plots and the table.

const WIDE = "(min-width: 68rem)"; // of a window where the filters are open from the beginning

class Filters {
  constructor(root, site) {
    Object.assign(this, { root, site, state: site.state });
    this.open = button("", () => this.show(this.panel.hidden, true), { "aria-controls": "filters" });
    this.count = element("span", { class: "count", role: "status" });
    this.reset = button("Reset", () => this.state.change(() => this.state.clear()));
    const link = button("Share", () => copyText(location.href, link), { title: "Copy the address with these filters" });
    const bar = element("div", { class: "filterbar" }, this.open, this.count, this.reset, link);
    this.panel = element("div", { class: "filters", id: "filters" });
    this.facets = site.state.facets
      .filter((facet) => facet.id !== "series")
      .map((facet) => this.choices(facet));
    this.limits = [
      this.limit("Recall at least", "least", "any"),
      ...(data.table ? [] : [this.limit("Compare at recall", "at", "")]),
    ];
    this.split = this.curves();
    this.panel.append(
      element("div", { class: "recalls" }, ...this.limits.map((limit) => limit.node)),
      this.split.node,
      ...this.facets.map((facet) => facet.node),
    );
    root.append(bar, this.panel);
    this.show(matchMedia(WIDE).matches);
    this.draw();
    this.state.listeners.push(() => this.draw());
  }

  show(isOpen, isAsked = false) {
    this.panel.hidden = !isOpen;
    this.open.setAttribute("aria-expanded", isOpen);
    if (isOpen && isAsked) this.panel.scrollIntoView({ block: "nearest" });
  }

  fieldset(label, names) {
    return element("fieldset", {}, element("legend", {}, label), element("div", { class: "choices" }, ...names));
  }

  check(label, action) {
    const box = element("input", { type: "checkbox" });
    box.addEventListener("change", action);
    const count = element("span", { class: "count" });
    return { box, count, node: element("label", {}, box, element("span", {}, label), count) };
  }

  choices(facet) {
    const checks = facet.options.map((value) => ({
      value,
      ...this.check(value === NOTHING ? "none" : value, () => this.state.choose(facet.id, value)),
    }));
    return { facet, checks, node: this.fieldset(facet.label, checks.map((check) => check.node)) };
  }

  curves() {
    const checks = this.state.facets.map((facet) => ({
      value: facet.id,
      ...this.check(facet.label, () => this.state.split(facet.id)),
    }));
    const node = this.fieldset("One curve for each", checks.map((check) => check.node));
    node.hidden = !checks.length || Boolean(data.table); // which has no curves
    return { checks, node };
  }

  limit(label, name, placeholder) {
    const input = element("input", { type: "number", min: 0, max: 1, step: "any", inputmode: "decimal", placeholder });
    input.addEventListener("change", () =>
      this.state.change((state) => {
        const value = input.value === "" ? NaN : Number(input.value);
        const nothing = name === "at" ? state.standard.at : null;
        state[name] = value >= 0 && value <= 1 ? value : nothing;
      }),
    );
    return { input, name, node: element("label", {}, label, input) };
  }

  draw() {
    const { state, site } = this;
    const { active } = state;
    this.open.textContent = active ? `Filters (${active})` : "Filters";
    const unit = element("span", { class: "unit" }, " points");
    this.count.replaceChildren(`${numbers.format(site.kept.length)} of ${numbers.format(site.points.length)}`, unit);
    this.reset.disabled = state.isStandard;
    for (const { input, name } of this.limits) input.value = state[name] ?? "";
    for (const { box, value } of this.split.checks) box.checked = state.by.includes(value);
    for (const { facet, checks } of this.facets) {
      const others = site.points.filter((point) => state.keeps(point, facet.id));
      const counts = new Map();
      for (const point of others) {
        const value = written(point[facet.id]);
        counts.set(value, (counts.get(value) ?? 0) + 1);
      }
      for (const { value, box, count, node } of checks) {
        box.checked = state.chosen.get(facet.id)?.has(value) ?? false;
        count.textContent = numbers.format(counts.get(value) ?? 0);
        node.classList.toggle("none", !counts.get(value));
      }
    }
  }
}
