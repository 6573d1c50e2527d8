// Without a validator and without other hosts: all that this page asks for, it asks of this server.
SwaggerUIBundle({
  url: "/schema/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  validatorUrl: null,
});
