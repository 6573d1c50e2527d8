/** A timer of more comes at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** So many at once; the others wait in order. */
export class Turns {
  #free: number;
  readonly #waiting = new Set<() => void>();
  /** One for all: each new one would pass by all that have left. */
  #order = this.#waiting.values();

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
      const leave = () => {
        this.#waiting.delete(begin);
        reject(signal?.reason);
      };
      const begin = () => {
        signal?.removeEventListener("abort", leave);
        resolve();
      };
      signal?.addEventListener("abort", leave, { once: true });
      this.#waiting.add(begin);
    });
  }

  give() {
    const begin = this.#next() ?? this.#again();
    if (begin === undefined) {
      this.#free++;
      return;
    }
    this.#waiting.delete(begin);
    begin();
  }

  #next(): (() => void) | undefined {
    return this.#order.next().value;
  }

  /** One that has come to an end stays there. */
  #again() {
    this.#order = this.#waiting.values();
    return this.#next();
  }
}
