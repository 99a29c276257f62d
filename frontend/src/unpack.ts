// Trajectories as Python packs them (simile._common.pages.pack): see Packed.

import type { Packed } from "./payload";

const MISSING = -32768;

/** Return the columns, as numbers; missing values are NaN. */
export async function unpack(packed: Omit<Packed, "holds">): Promise<Float32Array[]> {
  const stream = new Blob([bytesOf(packed.values)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const changes = new DataView(await new Response(stream).arrayBuffer());
  return Array.from({ length: packed.columns }, (_, column) => {
    const [unit, offset] = [packed.unit[column]!, packed.offset[column]!];
    const values = new Float32Array(packed.frames);
    const begin = 2 * column * packed.frames;
    for (let t = 0, sum = 0; t < packed.frames; t++) {
      sum = ((sum + changes.getInt16(begin + 2 * t, true)) << 16) >> 16; // sums wrap around, as the differences did
      values[t] = sum === MISSING ? Number.NaN : sum * unit + offset;
    }
    return values;
  });
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}
