"""WhatsApp: a business number of the assistant's own, over the Cloud API."""
