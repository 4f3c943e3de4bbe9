"""E-mail: a mailbox of the assistant's own, read by IMAP and answered by SMTP."""
