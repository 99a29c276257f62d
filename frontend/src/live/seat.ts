// The operator's seat: a connection to the studio, which passes it on to the service.
import { ask, json } from "../studio/api";
import type { Frame, Seated } from "./session";

export interface Place {
  service: string;
  token: string;
}

export interface StreamFacts {
  name: string;
  frames: number;
  by: string | null;
}

/** Something that nobody asked for. */
export interface Event {
  kind: string;
  on: boolean;
  reason?: string;
  [detail: string]: unknown;
}

interface Said {
  seated?: Seated;
  frames?: Frame[];
  skipped?: number;
  event?: Event;
  error?: string;
  ended?: string;
}

export interface Listener {
  seated(seated: Seated): void;
  frames(frames: Frame[], skipped: number): void;
  event(event: Event): void;
  error(sentence: string): void;
  ended(sentence: string): void;
}

export const getServices = async (): Promise<string[]> =>
  (await json<{ services: string[] }>(ask("GET", "api/services"))).services;
export const getStreams = async (place: Place): Promise<StreamFacts[]> =>
  (await json<{ streams: StreamFacts[] }>(ask("POST", "api/streams", place))).streams;

export class Seat {
  private readonly socket: WebSocket;
  private left = false;

  constructor(place: Place, stream: string, listener: Listener) {
    const address = new URL("api/operate", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(address);
    let reason = "The connection has ended.";
    this.socket.onopen = () => {
      this.say({ ...place, stream });
      this.say({ watch: { contexts: true } });
    };
    this.socket.onmessage = ({ data }) => {
      if (this.left) return;
      const said = JSON.parse(String(data)) as Said;
      if (said.seated) listener.seated(said.seated);
      if (said.frames) listener.frames(said.frames, said.skipped ?? 0);
      if (said.event) listener.event(said.event);
      if (said.error) listener.error(said.error);
      if (said.ended) reason = said.ended;
    };
    this.socket.onclose = () => {
      if (!this.left) listener.ended(reason);
    };
  }

  take(action: number[]): void {
    this.say({ take: action });
  }

  handBack(): void {
    this.say({ hand_back: true });
  }

  /** Leave, which hands back too. */
  leave(): void {
    this.left = true;
    this.socket.close();
  }

  private say(message: unknown): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
}
