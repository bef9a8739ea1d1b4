"""What an API server refuses, kind by kind: each rule takes an object as JSON has it and returns its field errors."""
