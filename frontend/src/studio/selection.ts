// What the user looks at, kept in the address after "#", so that a reload shows the same.

export interface Selection {
  data: string | null; // to learn from next
  run: string | null;
  sequence: number;
  action: string | null;
  shown: string[]; // other runs in the plot, in the order of their colours
  range: [number, number] | null; // frames in view; null for all
}

export function parseSelection(hash: string): Selection {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const range = /^(\d+)-(\d+)$/.exec(fields.get("frames") ?? "");
  const sequence = Number(fields.get("sequence") ?? 0);
  return {
    data: fields.get("data"),
    run: fields.get("run"),
    sequence: Number.isInteger(sequence) && sequence >= 0 ? sequence : 0,
    action: fields.get("action"),
    shown: (fields.get("shown") ?? "").split(",").filter(Boolean),
    range: range === null ? null : [Number(range[1]), Number(range[2])],
  };
}

export function formatSelection(selection: Selection): string {
  const fields = new URLSearchParams();
  if (selection.data !== null) fields.set("data", selection.data);
  if (selection.run !== null) fields.set("run", selection.run);
  if (selection.sequence > 0) fields.set("sequence", String(selection.sequence));
  if (selection.action !== null) fields.set("action", selection.action);
  if (selection.shown.length > 0) fields.set("shown", selection.shown.join(","));
  if (selection.range !== null) fields.set("frames", selection.range.map(Math.round).join("-"));
  const text = fields.toString();
  return text && `#${text}`;
}
