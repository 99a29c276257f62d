// What is looked at, in the address: a link, or a reload, shows the same.

export interface Place {
  sequence: number;
  action: number;
  begin: number | null; // frames
  end: number | null;
}

const REST = 150; // ms

/** Read #sequence=3&action=0&begin=100&end=200; null where the address says nothing of that kind. */
export function readPlace(hash: string): Place | null {
  const found = new URLSearchParams(hash.replace(/^#/, ""));
  const number = (name: string) => {
    const text = found.get(name);
    return text !== null && /^\d+$/.test(text) ? Number(text) : null;
  };
  const sequence = number("sequence");
  if (sequence === null) return null;
  return { sequence, action: number("action") ?? 0, begin: number("begin"), end: number("end") };
}

let waiting = 0;

/** Put a place into the address, once it has rested: browsers do not like that many times a second. */
export function writePlace(place: Place): void {
  clearTimeout(waiting);
  waiting = window.setTimeout(() => write(place), REST);
}

function write({ sequence, action, begin, end }: Place): void {
  const range = begin === null || end === null ? "" : `&begin=${Math.round(begin)}&end=${Math.round(end)}`;
  try {
    history.replaceState(null, "", `#sequence=${sequence}&action=${action}${range}`);
  } catch {
    // Browsers may refuse, for files or when asked too often: the page works without.
  }
}
