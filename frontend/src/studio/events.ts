// The server's news over a WebSocket that comes back by itself.
import { getState, Refusal } from "./api";
import type { Message } from "./types";

const FIRST_WAIT = 400; // ms, doubled each time up to
const LONGEST_WAIT = 3000;

/** "locked": the server answers, but it does not know us (it was started anew, with another key). */
export type Connection = "on" | "off" | "locked";

export class Events {
  private wait = FIRST_WAIT;
  private timer = 0;
  private socket: WebSocket | null = null;

  constructor(
    private readonly onmessage: (message: Message) => void,
    private readonly onconnection: (connection: Connection) => void,
  ) {
    // Whoever comes back to the page should not wait for the timer.
    for (const event of ["online", "focus"]) addEventListener(event, () => this.hurry());
    this.connect();
  }

  private connect(): void {
    const address = new URL("api/events", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address);
    this.socket = socket;
    socket.onmessage = (event) => {
      const message = JSON.parse(String(event.data)) as Message;
      if (message.type === "state") {
        this.wait = FIRST_WAIT;
        this.onconnection("on");
      }
      this.onmessage(message);
    };
    socket.onclose = () => {
      this.socket = null;
      this.timer = window.setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(2 * this.wait, LONGEST_WAIT);
      void this.diagnose();
    };
  }

  private hurry(): void {
    if (this.socket !== null) return;
    clearTimeout(this.timer);
    this.connect();
  }

  /** A browser does not say why a WebSocket was refused; a plain request does. */
  private async diagnose(): Promise<void> {
    try {
      await getState();
    } catch (error) {
      const locked = error instanceof Refusal && error.status === 403;
      this.onconnection(locked ? "locked" : "off");
    }
  }
}
