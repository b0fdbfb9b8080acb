"""One activation of one role: its prompt, the model's answer, and the artifact that it becomes."""
