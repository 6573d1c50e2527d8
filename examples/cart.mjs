/* Remind of an abandoned cart half an hour after its last change, and after four hours at most.
 * Express.
 *
 *     npm install postdate express
 *     node cart.mjs
 *     curl 127.0.0.1:9000/carts/17/items -H 'content-type: application/json' -d '{"item": "tea"}'
 */
import express from "express";
import { nodeReceiver, Postdate } from "postdate";

const ownUrl = process.env.OWN_URL ?? "http://127.0.0.1:9000";
const postdate = new Postdate(); // reads POSTDATE_URL and POSTDATE_API_KEY
const secrets = (await postdate.signing.get()).map((each) => each.secret);
const carts = new Map(); // stands for your database
const app = express();

// Ahead of express.json(): the signature is that of the raw bytes.
app.post(
  "/remind",
  nodeReceiver({
    secrets,
    onRequest({ body }) {
      const { cart } = JSON.parse(new TextDecoder().decode(body));
      if (carts.has(cart)) console.log(`Remind of cart ${cart}: ${carts.get(cart).join(", ")}`);
    },
  }),
);
app.use(express.json());

app.post("/carts/:cart/items", async (request, response) => {
  const { cart } = request.params;
  carts.set(cart, [...(carts.get(cart) ?? []), request.body.item]);
  // One schedule waits for each cart. Each change puts it off, and costs no further credit.
  const { triggerAt } = await postdate.schedule({
    targetUrl: `${ownUrl}/remind`,
    delay: "30m",
    maxWait: "4h",
    reference: `cart-${cart}`,
    onExisting: "replace",
    body: { cart },
    retries: 3,
  });
  response.status(201).json({ items: carts.get(cart), remindedAt: triggerAt });
});

app.post("/carts/:cart/checkout", async (request, response) => {
  const { cart } = request.params;
  carts.delete(cart);
  await postdate.schedules.cancelMany({ reference: `cart-${cart}` }); // gives the credit back
  response.status(204).end();
});

app.listen(Number(new URL(ownUrl).port || 80), "127.0.0.1");
