/** For Cloudflare Workers. */

import { use, type Given } from "./use.js";

export default {
  fetch: async (request: Request): Promise<Response> =>
    Response.json(await use((await request.json()) as Given)),
};
