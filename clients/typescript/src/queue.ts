/** First in, first out; an array takes as long for a shift as it is long. */
export class Queue<T> {
  #items: (T | undefined)[] = [];
  #head = 0;

  get length() {
    return this.#items.length - this.#head;
  }

  get first(): T | undefined {
    return this.#items[this.#head];
  }

  push(item: T) {
    this.#items.push(item);
  }

  shift(): T | undefined {
    const item = this.first;
    this.#items[this.#head] = undefined;
    if (++this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }
}

/** So many at once; the others wait in order. */
export class Turns {
  #free: number;
  readonly #waiting = new Queue<() => boolean>();

  constructor(count: number) {
    this.#free = count;
  }

  /** Rejects with the signal's reason; then no turn was taken. */
  take(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      if (this.#free > 0) {
        this.#free--;
        return resolve();
      }
      const leave = () => reject(signal?.reason);
      signal?.addEventListener("abort", leave, { once: true });
      this.#waiting.push(() => {
        signal?.removeEventListener("abort", leave);
        resolve();
        return !signal?.aborted;
      });
    });
  }

  give() {
    while (this.#waiting.length > 0) {
      if (this.#waiting.shift()!()) return;
    }
    this.#free++;
  }
}
