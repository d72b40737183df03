"use strict";

// The points that are left, as a table that sorts by any column. A page of a table alone names its main columns
// in `data.table`, and shows intervals.

const FEW_ROWS = 100;
const MAIN_COLUMNS = ["parameters", "recall", "qps", "p50", "p99", "build", "indexsize"];
const NO_COLUMNS = new Set(["ramat"]);
const LONG_COLUMNS = ["series", "dataset", "parameters", "built", "warnings"];
const UNITS = { s: "(s)", ms: "(ms)", kib: "(KiB)", bytes: "(bytes)" };

const wordsClass = ({ id }) => (LONG_COLUMNS.includes(id) ? "words long" : "words");

const csvCell = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

class Table {
  constructor(root, site) {
    Object.assign(this, { site, state: site.state, isWhole: false });
    this.wider = button("All columns", () => {
      this.state.keep((state) => (state.isWide = !state.isWide));
      this.draw();
    });
    const tools = [
      this.wider,
      button("Copy CSV", (event) => copyText(this.csv(), event.currentTarget)),
      button("Download CSV", () => this.download()),
    ];
    this.head = element("tr");
    this.body = element("tbody");
    this.more = button("", () => {
      this.isWhole = true;
      this.draw();
    });
    const table = element("table", {}, element("thead", {}, this.head), this.body);
    const scroll = { class: "scroll", tabindex: "0", role: "region", "aria-label": "Points" };
    root.append(element("div", { class: "tools" }, ...tools), element("div", scroll, table), this.more);
    this.draw();
    this.state.listeners.push(() => this.draw());
    window.addEventListener("beforeprint", () => this.more.hidden || this.more.click());
  }

  get columns() {
    const { columns, facets } = this.site;
    if (this.state.isWide) return columns.filter((column) => !NO_COLUMNS.has(column.id));
    const named = data.table?.columns ?? MAIN_COLUMNS;
    const main = [data.links.column, ...named, ...facets.map((facet) => facet.id)];
    const wanted = (id) => id !== "series" && main.includes(id);
    return columns.filter((column) => wanted(column.id));
  }

  label({ label, kind }) {
    return UNITS[kind] && !label.includes("(") ? `${label} ${UNITS[kind]}` : label;
  }

  get sorted() {
    const { sort } = this.state;
    return { id: sort.replace(/^-/, ""), isDescending: sort.startsWith("-") };
  }

  // Only when other columns are shown: a heading that is pressed keeps the focus.
  drawHead() {
    if (this.heads && this.wasWide === this.state.isWide) return;
    this.wasWide = this.state.isWide;
    this.wider.setAttribute("aria-pressed", this.state.isWide);
    this.heads = this.columns.map((column) => {
      const words = column.kind === "words" ? { class: wordsClass(column) } : {};
      const head = element("th", { scope: "col", ...words }, button("", () => this.sort(column)));
      return { column, head };
    });
    this.head.replaceChildren(...this.heads.map(({ head }) => head));
  }

  sort({ id, kind }) {
    const isDescending = this.sorted.id === id ? !this.sorted.isDescending : kind !== "words";
    this.state.keep((state) => (state.sort = isDescending ? `-${id}` : id));
    this.draw();
  }

  rows() {
    const { id, isDescending } = this.sorted;
    const isWords = this.site.column(id).kind === "words";
    const sign = isDescending ? -1 : 1;
    const order = new Map(this.site.column(id).words?.map((word, i) => [word, i]));
    const key = (point) => (isWords ? order.get(point[id]) : point[id]) ?? null;
    return this.site.visible().sort((a, b) => {
      const [av, bv] = [key(a), key(b)];
      if (av === null || bv === null) return (av === null) - (bv === null);
      return sign * (av - bv);
    });
  }

  draw() {
    this.drawHead();
    const { id, isDescending } = this.sorted;
    for (const { column, head } of this.heads) {
      const isActive = id === column.id;
      const direction = isDescending ? "descending" : "ascending";
      const arrow = { descending: " ▼", ascending: " ▲" }[direction];
      head.firstChild.textContent = this.label(column) + (isActive ? arrow : "");
      head.setAttribute("aria-sort", isActive ? direction : "none");
    }
    const rows = this.rows();
    const listed = this.isWhole ? rows : rows.slice(0, FEW_ROWS);
    this.more.hidden = listed.length === rows.length;
    this.more.textContent = `Show all ${plural(rows.length, "point")}`;
    this.body.replaceChildren(...listed.map((point) => this.row(point)));
  }

  row(point) {
    const cells = this.heads.map(({ column }) => {
      const value = point[column.id];
      const isWords = column.kind === "words";
      const show = isWords ? (words) => words ?? "–" : column.kind === "share" ? showShare : showNumber;
      const text = show(value);
      const file = column.id === data.links.column && data.links.files[point[data.links.column]];
      const few = data.table && isWords ? { class: "few", title: text } : null;
      const content = file ? element("a", { href: file, ...few }, text) : few ? element("span", few, text) : text;
      const bar = data.table && point.bars[column.id];
      const interval = bar ? [" ", element("small", {}, `(${bar.map(show).join("–")})`)] : [];
      return element("td", isWords ? { class: wordsClass(column) } : {}, content, ...interval);
    });
    return element("tr", {}, ...cells);
  }

  csv() {
    const ends = ["low", "high"];
    const endsOf = (column) => (data.table && column.low ? ends : []);
    const heads = (column) => [this.label(column), ...endsOf(column).map((end) => `${this.label(column)} ${end}`)];
    const cells = (column, point) => [point[column.id], ...endsOf(column).map((end, i) => point.bars[column.id]?.[i])];
    const lines = [this.columns.flatMap(heads)];
    for (const point of this.rows()) lines.push(this.columns.flatMap((column) => cells(column, point)));
    return lines.map((cells) => cells.map(csvCell).join(",")).join("\r\n") + "\r\n";
  }

  download() {
    const url = URL.createObjectURL(new Blob([this.csv()], { type: "text/csv" }));
    element("a", { href: url, download: `${document.title.replaceAll(/[^\w.-]+/g, "_")}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }
}
