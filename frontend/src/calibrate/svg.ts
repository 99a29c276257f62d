// Elements of drawings, made of plain data.

export function s(tag: string, attributes: Record<string, string | number> = {}, ...children: Element[]): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** The points of a polyline, of x, y, x, y, ... */
export function points(flat: number[]): string {
  return flat.map((value, i) => (i % 2 ? `${value}` : ` ${value},`)).join("");
}
