"""What the trials of jobs amount to: values from stored records, with how sure one may be of them."""
