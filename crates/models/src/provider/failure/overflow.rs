//! How providers say that a conversation does not fit the model's window, and how large that window is.

/// How providers call an overflow in fields.
pub(super) const OVERFLOW_LABELS: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size_error",
    "model_max_prompt_tokens_exceeded",
    "request_too_large",
    super::report::WINDOW_FILLED,
];

/// How providers speak of an overflow.
pub(super) const OVERFLOW: &[&str] = &[
    "context_length_exceeded",
    "context length exceeded",
    "maximum context length",
    "maximum prompt length",
    "maximum model length",
    "prompt is too long",
    "prompt exceeds max length",
    "prompt 超长",
    "prompt too long",
    "input is too long",
    "exceeds the maximum number of tokens",
    "exceeds the available context size",
    "exceed context limit",
    "exceeds the context window",
    "exceeds the model's context",
    "exceeds model's maximum context",
    "exceeds the model's maximum context",
    "exceeds the maximum allowed length",
    "exceeds the maximum allowed input length",
    "exceeds the context length",
    "exceeds the limit of",
    "request payload size exceeds the limit",
    // vLLM, of the room that is left for an answer.
    "must be at least 1, got -",
    "input tokens exceed the configured limit",
    "context window exceeded",
    "context window exceeds limit",
    "longer than the model's context length",
    "longer than the context length",
    "greater than the context length",
    "context length of only",
    "context length is only",
    "larger than the max context size",
    "configured context size",
    "exceeded model token limit",
    "exceeds model limit",
    "more than max tokens allowed",
    "reduce the length of the messages",
    "`inputs` tokens + `max_new_tokens` must be",
    "range of input length should be",
    "cannot truncate prompt with n_keep",
    "exceeded max_prompt_tokens",
    "exceed context window of",
    "too many tokens: size limit exceeded",
    "`inputs` must have less than",
    // SiliconFlow, of the prompt and of prompt and answer together.
    "must be less than max_seq_len",
    "less than or equal to max_seq_len",
    // Volcengine.
    "exceeds the maximum length",
    "exceed max message tokens",
];

/// How unknown words say that there is too much of something.
pub(super) const MUCH: &[&str] = &[
    "exceed",
    "too long",
    "too many",
    "too large",
    "longer than",
    "greater than",
    "less than",
    "larger than",
    "above the limit",
    "over the limit",
    "maximum",
];

/// How unknown words name what a model is given.
pub(super) const INPUT: &[&str] = &["token", "context", "prompt", "input", "sequence", "conversation", "messages"];

/// What also has limits, and is no conversation.
pub(super) const OTHER_LIMITS: &[&str] = &[
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "max_new_tokens",
    "output tokens",
    "completion tokens",
    "image",
    "tools",
    "function",
    "stop sequence",
    "temperature",
    "top_p",
    "quota",
    "credit",
    "budget",
    "billing",
    "spend",
    "plan",
    "organization",
    "account",
    "daily",
    "monthly",
    "per day",
    "wait before",
    "throttl",
    "policy",
    "concurren",
    "metadata",
];

/// What sounds like an overflow and is none: a rate, or a single field.
pub(super) const NO_OVERFLOW: &[&str] =
    &["rate limit", "per minute", "too many requests", "throttling", "string too long"];

/// What stands before the size of the window in the words of an overflow.
pub(super) const WINDOW: &[&str] = &[
    "maximum context length is ",
    "maximum context length of ",
    "maximum context length (",
    "maximum context length: ",
    "maximum prompt length is ",
    "maximum model length of ",
    "tokens allowed (",
    "allowed length (",
    "allowed input length of ",
    "n_ctx: ",
    "n_ctx (",
    "context length (",
    "context length of only ",
    "context length is only ",
    "context size (",
    "context size is ",
    "configured limit of ",
    "exceeds the limit of ",
    "exceeds model limit ",
    "while limit is ",
    "token limit: ",
    "must be <= ",
    "model with ",
    "should be [1, ",
    "max_prompt_tokens (",
    "exceed context window of ",
    "must have less than ",
    "maximum allowed length ",
    "max_seq_len (",
    "exceeds the maximum length ",
    " > ",
];
