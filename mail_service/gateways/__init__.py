"""Who we talk to: the only network. SES and its answers, SNS verification, certificates."""
