// Calls for many schedules: by their ids, or by a filter. More than one call takes go in several.
import { checkedKey, kindOf, limited, text, written } from "./arguments.js";
import type { Answer, Calls, CreateOptions } from "./calls.js";
import { errorOf, PostdateError, strangeAnswer } from "./errors.js";

const AT_ONCE = 1000;

/** What became of one of many: its answer, or its error. */
export type Result<T> = T | PostdateError;

interface Call {
  path: string;
  /** Where an item has the id that was given. */
  idName: string;
  /** Which list is meant without ids. */
  listed: Record<string, string>;
  once?: boolean;
}

interface Some<T> {
  results: Result<T>[];
  nextCursor: string | null;
  occurrencesLeft: number;
}

/** The result of each id, in order, or of each that matches; and how many were left out. */
export async function each<T>(
  calls: Calls,
  call: Call,
  chosen: Iterable<string> | object,
  options: CreateOptions,
): Promise<{ results: Result<T>[]; occurrencesLeft: number }> {
  const key = call.once ? checkedKey(options.idempotencyKey ?? crypto.randomUUID()) : undefined;
  let number = 0;
  /** Later calls number the first one's key. */
  const some = async (body: object): Promise<Some<T>> => {
    const own = ++number === 1 || key === undefined ? key : checkedKey(`${key}-${number}`);
    try {
      const once = own === undefined ? {} : { idempotencyKey: own };
      const asked = { body: JSON.stringify(body), once: own !== undefined };
      return read(call, await calls.call("POST", call.path, { ...options, ...once }, asked));
    } catch (error) {
      if (error instanceof PostdateError) {
        // The key with which the whole can be repeated, of which a part has been done.
        error.idempotencyKey = key ?? null;
        error.maybeDone ||= number > 1;
      }
      throw error;
    }
  };
  if (typeof chosen === "string") return each(calls, call, [chosen], options);
  if (isIterable(chosen)) return named(some, [...chosen]);
  return matching(some, { ...call.listed, ...checked(chosen) });
}

const isIterable = (chosen: unknown): chosen is Iterable<string> =>
  typeof (chosen as Iterable<string> | null | undefined)?.[Symbol.iterator] === "function";

/** A filter that is lost by mistake would mean all; so would a Promise, or a list of schedules. */
function checked(filter: object) {
  const kind = filter && Object.getPrototypeOf(filter);
  if (
    typeof filter !== "object" ||
    !filter ||
    (kind !== null && Object.getPrototypeOf(kind) !== null)
  ) {
    throw new TypeError(`Choose by ids or by a filter, not by ${kindOf(filter)}`);
  }
  for (const [name, value] of Object.entries(filter)) {
    if (value === undefined || value === null) {
      throw new TypeError(`${name} is ${value}; leave it out to choose without it`);
    }
  }
  return written(filter);
}

/** A repeated id is sent once, and has its result as often as it was given. */
async function named<T>(some: (body: object) => Promise<Some<T>>, ids: string[]) {
  if (ids.length === 0) {
    throw new RangeError("Give at least one id; an empty filter means all that match.");
  }
  ids.forEach((id, number) => text(`ids[${number}]`, id));
  const asked = [...new Set(ids)];
  const found = new Map<string, Result<T>>();
  for (let start = 0; start < asked.length; start += AT_ONCE) {
    const part = asked.slice(start, start + AT_ONCE);
    const { results } = await some({ ids: part });
    if (results.length !== part.length) throw strangeCount(results.length);
    part.forEach((id, number) => {
      const result = results[number]!;
      // Its own has but the beginning of an id that is too long.
      if (result instanceof PostdateError) result.scheduleId = id;
      found.set(id, result);
    });
  }
  return { results: ids.map((id) => found.get(id)!), occurrencesLeft: 0 };
}

async function matching<T>(
  some: (body: object) => Promise<Some<T>>,
  { limit, ...filter }: { limit?: unknown },
) {
  const most = limited(limit);
  const results: Result<T>[] = [];
  let occurrencesLeft = 0;
  for (let cursor: string | null = null; results.length < most;) {
    const asked = { ...filter, cursor, limit: Math.min(most - results.length, AT_ONCE) };
    const found: Some<T> = await some(asked);
    results.push(...found.results);
    occurrencesLeft += found.occurrencesLeft;
    cursor = found.nextCursor;
    if (cursor === null) break;
  }
  return { results, occurrencesLeft };
}

function read<T>({ idName }: Call, answer: Answer): Some<T> {
  const { schedules, nextCursor = null, occurrencesLeft = 0, ...ofAll } = answer.body;
  const results = resultsOf<T>(ofAll, answer);
  results.forEach((result, number) => {
    if (result instanceof PostdateError) result.scheduleId = schedules[number][idName];
  });
  return { results, nextCursor, occurrencesLeft };
}

/** Each item with what the answer says of all, or the error in its place. */
export function resultsOf<T>(ofAll: object, { body, replayed, requestId }: Answer): Result<T>[] {
  if (!Array.isArray(body.schedules)) throw strangeAnswer("it has no schedules", true);
  return body.schedules.map((item: any) =>
    "code" in item ? errorOf(item.code, { ...item, requestId }) : { ...ofAll, replayed, ...item },
  );
}

export function strangeCount(count: number) {
  return strangeAnswer(`it is for ${count} schedules.`, true);
}
