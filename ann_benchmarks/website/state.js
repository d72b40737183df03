"use strict";

// What the reader has chosen. It is in the address, behind #, so that it can be shared.
//
// A facet's name with a value, as often as there are chosen values; `least`: recall at least; `at`: the recall to
// compare at; `by`: what has a curve of its own; `off`: curves that are switched off; `sort`: the column that the
// table is sorted by, with a - before it from the most to the least; `columns`: all, not only the main ones.

class State {
  constructor(facets, points, target) {
    this.facets = facets;
    this.standard = {
      at: target,
      by: standardCurves(facets, points),
      least: data.table?.least ?? null,
      sort: data.table?.sort ?? data.links.column,
    };
    this.listeners = [];
    this.read();
    window.addEventListener("hashchange", () => this.isOwn() || (this.read(), this.tell()));
  }

  clear() {
    this.chosen = new Map();
    this.least = this.standard.least;
    this.at = this.standard.at;
    this.by = this.standard.by;
    this.off = new Set();
  }

  // What is not a filter, such as #points, is a place on the page.
  isOwn() {
    return location.hash !== "" && !location.hash.includes("=");
  }

  read() {
    if (this.by && this.isOwn()) return;
    this.clear();
    const given = new URLSearchParams(this.isOwn() ? "" : location.hash.slice(1));
    const share = (name) => {
      const value = Number.parseFloat(given.get(name));
      return value >= 0 && value <= 1 ? value : null;
    };
    for (const facet of this.facets) {
      const values = given.getAll(facet.id).filter((value) => facet.options.includes(value));
      if (values.length) this.chosen.set(facet.id, new Set(values));
    }
    this.least = share("least") ?? this.standard.least;
    this.at = share("at") ?? this.standard.at;
    const by = given.getAll("by").filter((id) => this.facets.some((facet) => facet.id === id));
    if (by.length) this.by = by;
    this.off = new Set(given.getAll("off"));
    const sort = given.get("sort") ?? "";
    const isColumn = data.points.columns.some(({ id, label }) => label && id === sort.replace(/^-/, ""));
    this.sort = isColumn ? sort : this.standard.sort;
    this.isWide = given.get("columns") === "all";
  }

  written() {
    const all = new URLSearchParams();
    for (const [id, values] of this.chosen) for (const value of values) all.append(id, value);
    if (this.least !== this.standard.least) all.append("least", this.least ?? 0);
    if (this.at !== this.standard.at) all.append("at", this.at);
    if (String(this.by) !== String(this.standard.by)) for (const id of this.by) all.append("by", id);
    for (const name of this.off) all.append("off", name);
    return all.toString();
  }

  // With how the table is shown, which no filter changes.
  address() {
    const all = new URLSearchParams(this.written());
    if (this.sort !== this.standard.sort) all.append("sort", this.sort);
    if (this.isWide) all.append("columns", "all");
    return all.toString();
  }

  get active() {
    return this.chosen.size + (this.least !== this.standard.least);
  }

  get isStandard() {
    return this.written() === "";
  }

  change(action) {
    this.keep(action);
    this.tell();
  }

  // A change that concerns the table alone.
  keep(action) {
    action(this);
    const address = this.address();
    history.replaceState(null, "", address ? `#${address}` : location.pathname + location.search);
  }

  tell() {
    for (const listener of this.listeners) listener();
  }

  choose(id, value) {
    this.change(() => {
      const values = this.chosen.get(id) ?? new Set();
      if (!values.delete(value)) values.add(value);
      if (values.size) this.chosen.set(id, values);
      else this.chosen.delete(id);
    });
  }

  split(id) {
    this.change(() => {
      const chosen = new Set(this.by);
      if (!chosen.delete(id)) chosen.add(id);
      if (chosen.size) this.by = this.facets.map((facet) => facet.id).filter((one) => chosen.has(one));
    });
  }

  toggle(name) {
    this.change(() => this.off.delete(name) || this.off.add(name));
  }

  switchAll(names, isOn) {
    this.change(() => names.forEach((name) => (isOn ? this.off.delete(name) : this.off.add(name))));
  }

  // Whether a point is left, by all filters or by all but one facet's.
  keeps(point, but = null) {
    if (this.least !== null && isNumber(point.recall) && !reaches(point, this.least)) return false;
    for (const [id, values] of this.chosen) if (id !== but && !values.has(written(point[id]))) return false;
    return true;
  }
}
