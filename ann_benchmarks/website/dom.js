"use strict";

// Elements and numbers. Every text goes into the page as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function shape(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function button(label, action, attributes = {}) {
  const node = element("button", { type: "button", ...attributes }, label);
  node.addEventListener("click", action);
  return node;
}

const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const shorter = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const small = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const shares = new Intl.NumberFormat("en", { maximumFractionDigits: 5 });

const isNumber = (value) => typeof value === "number";
const showNumber = (value) => (isNumber(value) ? (Math.abs(value) < 1000 ? small : numbers).format(value) : "–");
const showShare = (value) => (isNumber(value) ? shares.format(value) : "–");

function showSize(bytes) {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let power = 0;
  while (power < units.length - 1 && bytes >= 1024 ** (power + 1)) power += 1;
  const value = bytes / 1024 ** power;
  return `${value >= 100 ? numbers.format(Math.round(value)) : shorter.format(value)} ${units[power]}`;
}

const SHOWN = {
  words: String,
  number: showNumber,
  share: showShare,
  s: (value) => `${showNumber(value)} s`,
  ms: (value) => `${showNumber(value)} ms`,
  kib: (value) => showSize(value * 1024),
  bytes: showSize,
};

const shown = (kind, value) => (value === null || value === undefined ? "–" : SHOWN[kind](value));
const withoutUnit = (label) => label.replace(/ \([^()]*\)$/, "");
const withoutCapital = (label) => (/^[A-Z][a-z]+( |$)/.test(label) ? label[0].toLowerCase() + label.slice(1) : label);
const plural = (count, noun) => `${numbers.format(count)} ${noun}${count === 1 ? "" : "s"}`;

async function copyText(text, node) {
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
