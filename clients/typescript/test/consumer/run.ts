/** For Node.js, Bun and Deno. */

import { use } from "./use.js";

console.log(JSON.stringify(await use(JSON.parse(process.argv[2] ?? ""))));
