// Many wishes, one at a time: while one is fulfilled, only the newest of those that came meanwhile is kept.

export class Newest<T> {
  private next: T | null = null;
  private working = false;

  constructor(private readonly fulfil: (wish: T) => Promise<void>) {}

  wish(wish: T): void {
    this.next = wish;
    if (!this.working) void this.work();
  }

  /** Forget what has not begun. */
  drop(): void {
    this.next = null;
  }

  private async work(): Promise<void> {
    this.working = true;
    while (this.next !== null) {
      const wish = this.next;
      this.next = null;
      await this.fulfil(wish);
    }
    this.working = false;
  }
}
