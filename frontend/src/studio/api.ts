// Requests to the server; whatever it refuses becomes a `Refusal` with its own sentence.
import type { Court } from "../calibrate/board";
import type { Data, GamesWish, ReadOptions, Rolled, Run, Sequences, State, Wish } from "./types";

export class Refusal extends Error {
  constructor(
    readonly status: number, // 0: no answer at all
    message: string,
  ) {
    super(message);
  }
}

const SILENT = "The server is not answering. Is `simile studio` still running?";

// Relative to the page's own address: its cookie is good for that place alone.
const runPath = (id: string, rest = ""): string => `api/runs/${encodeURIComponent(id)}${rest}`;
const dataPath = (id: string): string => `api/data/${encodeURIComponent(id)}`;

export async function ask(method: string, path: string, body?: unknown): Promise<Response> {
  const request: RequestInit = { method, credentials: "same-origin" };
  if (body !== undefined) {
    request.body = JSON.stringify(body);
    request.headers = { "Content-Type": "application/json" };
  }
  let response: Response;
  try {
    response = await fetch(path, request);
  } catch {
    throw new Refusal(0, SILENT);
  }
  if (!response.ok) throw new Refusal(response.status, sentence(await response.text(), response.status));
  return response;
}

function sentence(text: string, status: number): string {
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    if (typeof error === "string" && error) return error;
  } catch {
    // Not from our server, or cut off: the number is all there is to say.
  }
  return `The server refused with status ${status}.`;
}

export const json = async <T>(answer: Promise<Response>): Promise<T> => (await (await answer).json()) as T;

export const getState = (): Promise<State> => json(ask("GET", "api/state"));
export const readAgain = (id: string, options: ReadOptions): Promise<Data> => json(ask("POST", dataPath(id), options));
export const deleteData = (id: string): Promise<Response> => ask("DELETE", dataPath(id));
export const makeGames = (wish: GamesWish): Promise<Data> => json(ask("POST", "api/games", wish));
export const startRun = (wish: Wish): Promise<Run> => json(ask("POST", "api/runs", wish));
export const stopRun = (id: string): Promise<Run> => json(ask("POST", runPath(id, "/stop")));
export const resumeRun = (id: string): Promise<Run> => json(ask("POST", runPath(id, "/resume")));
export const deleteRun = (id: string): Promise<Response> => ask("DELETE", runPath(id));
export const getSequences = (id: string): Promise<Sequences> => json(ask("GET", runPath(id, "/sequences")));

/** What clicks on a picture tell: a calibration, how well it fits, and where the lines of the court then are. */
export interface Fitted {
  text: string;
  lines: number[][];
  pairs: { name: string; pixels: number | null; metres: number | null; used: boolean }[];
  kept?: string;
}

export const getCourts = (court = ""): Promise<Court[]> =>
  json(ask("GET", court ? `api/courts?court=${encodeURIComponent(court)}` : "api/courts"));
export const fitClicks = (wish: unknown): Promise<Fitted> => json(ask("POST", "api/calibrations", wish));

export type Download = "policy" | "report" | "python" | "config" | "command";
export const downloadPath = (id: string, what: Download): string => runPath(id, `/${what}`);
export const reportPath = (id: string): string => runPath(id, "/report?inline=1");

export function courtPath(id: string, sequence: number, smoothness: number | null): string {
  const path = runPath(id, `/court?sequence=${sequence}`);
  return smoothness === null ? path : `${path}&smoothness=${smoothness}`;
}

export async function roll(id: string, sequence: number, smoothness: number | null): Promise<Rolled> {
  const response = await ask("POST", runPath(id, "/roll"), { sequence, smoothness });
  return decodeRoll(await response.arrayBuffer());
}

/** The length of a JSON header (uint32), the header, padding to 4 bytes, then float32: curve by curve, action by action. */
function decodeRoll(buffer: ArrayBuffer): Rolled {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))) as Omit<Rolled, "values">;
  const start = Math.ceil((4 + length) / 4) * 4;
  const all = new Float32Array(buffer, start);
  const samples = all.length / (header.curves.length * header.actions.length);
  const column = (i: number): Float32Array => all.subarray(i * samples, (i + 1) * samples);
  const k = header.actions.length;
  const values = header.curves.map((_, c) => header.actions.map((_, a) => column(c * k + a)));
  return { ...header, values };
}

/** XMLHttpRequest, since fetch does not tell how much of a file has been sent. */
export function upload(file: File, progress: (share: number) => void): Promise<Data> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", dataPath(file.name));
    request.upload.onprogress = (event) => progress(event.loaded / Math.max(event.total, 1));
    request.onload = () => {
      if (request.status < 300) resolve(JSON.parse(request.responseText) as Data);
      else reject(new Refusal(request.status, sentence(request.responseText, request.status)));
    };
    // A server that refuses a large file early may close before all is sent: the browser then shows no answer.
    request.onerror = () =>
      reject(new Refusal(0, `${file.name} did not arrive: the server closed the connection, or it is not answering.`));
    request.send(file);
  });
}
