"""Reports: what was run and what came out, in one folder that can be handed on."""
