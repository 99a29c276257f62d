// Elements made of plain data: text becomes text nodes, never HTML.

export type Child = Node | string | number | null | undefined | false;
type Value = string | number | boolean | null | undefined | ((event: never) => void) | Record<string, string>;

/** Make an element. `onclick` and the like are listeners, `style` is an object (an attribute would need an unsafe CSP). */
export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Record<string, Value> = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else if (typeof value === "object") {
      for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
    } else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, ...children);
  return element;
}

/** Append children, leaving out those that are null, undefined or false. */
export function add(element: Element, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "number" ? String(child) : child);
  }
}

const MISSING = "–";
const formats = new Map<number, Intl.NumberFormat>();

/** Write a number with so many significant digits, whole numbers in full; thousands are set apart by a thin space. */
export function format(x: number | null | undefined, digits = 3): string {
  if (x === null || x === undefined || Number.isNaN(x)) return MISSING;
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  if (size >= 1e9 || (size > 0 && size < 1e-4)) return x.toExponential(digits - 1).replace("-", "−");
  const whole = Number.isInteger(x) || size >= 10 ** (digits - 1);
  return (whole ? grouped(0) : grouped(digits)).format(x).replaceAll(",", "\u2009").replace("-", "−");
}

function grouped(digits: number): Intl.NumberFormat {
  const significant = { minimumSignificantDigits: digits, maximumSignificantDigits: digits };
  const found = formats.get(digits) ?? new Intl.NumberFormat("en", digits ? significant : { maximumFractionDigits: 0 });
  formats.set(digits, found);
  return found;
}

/** Write a share such as 0.123 as "12.3 %". */
export function percent(share: number): string {
  return `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

/** Write a time of so many seconds: "7.25 s", or "2:05" from two minutes on. */
export function clock(seconds: number, digits = 2): string {
  if (Math.abs(seconds) < 120) return `${Number(seconds.toFixed(digits))} s`;
  const [sign, whole] = [seconds < 0 ? "−" : "", Math.round(Math.abs(seconds))];
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const shown = parts[0] === 0 ? parts.slice(1) : parts;
  return sign + shown.map((part, i) => (i ? String(part).padStart(2, "0") : String(part))).join(":");
}
