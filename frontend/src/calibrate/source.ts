// A picture, or a frame of a video, from the user's disk. It stays in the browser.
import { h } from "../dom";

type Show = (source: CanvasImageSource, width: number, height: number) => void;

const READY = 5000; // milliseconds to wait for a frame

export class Source {
  readonly root: HTMLElement;
  private readonly video = h("video", { muted: "", playsinline: "", preload: "auto" });
  private readonly slider = h("input", { type: "range", min: "0", step: "0.04", id: "moment" });
  private readonly moment = h("label", { hidden: "" }, "Moment of the video", this.slider);
  private address = "";

  constructor(
    private readonly show: Show,
    private readonly complain: (text: string) => void,
  ) {
    const input = h("input", { type: "file", id: "file", accept: "image/*,video/*", hidden: "" });
    input.setAttribute("aria-label", "Picture or video");
    const button = h("button", { type: "button", class: "main" }, "Open a picture or a video");
    button.onclick = () => input.click();
    input.onchange = () => {
      const file = input.files?.[0];
      input.value = "";
      if (file) void this.take(file);
    };
    this.slider.oninput = () => {
      this.video.currentTime = Number(this.slider.value);
    };
    this.video.onseeked = () => this.frame();
    this.root = h("div", { class: "row" }, button, input, this.moment);
  }

  private async take(file: File): Promise<void> {
    URL.revokeObjectURL(this.address);
    this.moment.hidden = true;
    try {
      if (file.type.startsWith("video/")) await this.play(file);
      else {
        const bitmap = await createImageBitmap(file);
        this.show(bitmap, bitmap.width, bitmap.height);
      }
    } catch {
      this.complain(
        `${file.name} cannot be shown by this browser: take a frame of it as a PNG, as by ffmpeg -i VIDEO -frames:v 1 frame.png.`,
      );
    }
  }

  private async play(file: File): Promise<void> {
    this.address = URL.createObjectURL(file);
    await new Promise<void>((resolve, reject) => {
      this.video.onloadeddata = () => resolve();
      this.video.onerror = () => reject(new Error("unreadable"));
      window.setTimeout(() => reject(new Error("too slow")), READY);
      this.video.src = this.address;
    });
    this.slider.max = String(this.video.duration);
    this.slider.value = "0";
    this.moment.hidden = false;
    this.frame();
  }

  private frame(): void {
    this.show(this.video, this.video.videoWidth, this.video.videoHeight);
  }
}
