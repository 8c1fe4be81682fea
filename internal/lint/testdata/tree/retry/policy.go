package retry

const Never = 0
