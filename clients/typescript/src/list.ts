import { limited, queried } from "./arguments.js";
import type { CallOptions, Calls } from "./calls.js";
import { strangeAnswer } from "./errors.js";

const LONGEST_PAGE = 100;

export interface Page<T> {
  items: T[];
  /** For the page that follows; null after the last one. */
  nextCursor: string | null;
}

/** All that match, page by page: `for await (const each of list)`. */
export class List<T> implements AsyncIterable<T> {
  readonly #calls: Calls;
  readonly #path: string;
  readonly #name: string;
  readonly #filter: object;
  readonly #limit: number;
  readonly #options: CallOptions;

  constructor(
    calls: Calls,
    path: string,
    name: string,
    filter: { limit?: number | undefined },
    options: CallOptions,
  ) {
    const { limit, ...others } = filter;
    this.#calls = calls;
    this.#path = path;
    this.#name = name;
    this.#filter = others;
    this.#limit = limited(limit);
    this.#options = options;
  }

  /**
   * One page, of `limit` items if the list has one, and of 100 at most. It may be short, or empty,
   * before the end, which `nextCursor` tells.
   */
  async page(cursor?: string | null): Promise<Page<T>> {
    return this.#page(this.#limit, cursor);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    let cursor: string | null = null;
    for (let left = this.#limit; left > 0;) {
      const page: Page<T> = await this.#page(left, cursor);
      yield* page.items;
      cursor = page.nextCursor;
      if (cursor === null) return;
      left -= page.items.length;
    }
  }

  async #page(left: number, cursor: string | null | undefined): Promise<Page<T>> {
    const limit = Math.min(left, LONGEST_PAGE);
    const query = queried({ ...this.#filter, limit, cursor });
    const { body } = await this.#calls.call("GET", this.#path, this.#options, { query });
    const { [this.#name]: items, nextCursor = null } = body;
    if (!Array.isArray(items)) throw strangeAnswer(`it has no ${this.#name}`);
    return { items, nextCursor };
  }
}
