"""From what a verifier wrote to a validated EvaluationResult. Pure: nothing here touches the outside world."""
