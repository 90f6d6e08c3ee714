//! How providers say that a caller is not let in: no money, no key, no permission, the wrong country. No other request would be.

/// The names that vendors give to an account without money: OpenAI, Moonshot, Zhipu, DashScope.
pub(super) const NO_MONEY: &[&str] = &[
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "exceeded_current_quota_error",
    "1113",
    "Arrearage",
];

/// How vendors say that an account has no money, where no name does.
pub(super) const UNPAID: &[&str] = &[
    "check your plan and billing",
    "insufficient balance",
    "insufficient credits",
    "insufficient funds",
    "credit balance is too low",
    "run out of credits",
    "account is suspended",
];

/// How vendors say that a key or an account is not let in, where they say so with 400: Gemini, xAI, Anthropic, OpenAI, Bedrock.
pub(super) const LOCKED_OUT: &[&str] = &[
    "api key not valid",
    "api key not found",
    "api key expired",
    "incorrect api key",
    "invalid api key",
    "user location is not supported",
    "not available in your country",
    "not available in your region",
    "unsupported countries",
    "country, region, or territory",
    "enable billing",
    "billing account",
    "reached your specified api usage limits",
    "organization has been disabled",
    "organization must be verified to use",
    "is not authorized to invoke",
    "access is denied",
    "have access to the model",
    "not available for this account",
];

/// All that Bedrock says of an account that may not call its models.
pub(super) const NOT_ALLOWED: &str = "operation not allowed";

/// The names that vendors give to a caller that is not let in: OpenAI, Gemini, Bedrock.
pub(super) const LOCKED_OUT_LABELS: &[&str] = &[
    "invalid_api_key",
    "unsupported_country_region_territory",
    "data_residency_mismatch",
    "account_deactivated",
    "API_KEY_INVALID",
    "API_KEY_EXPIRED",
    "API_KEY_SERVICE_BLOCKED",
    "BILLING_DISABLED",
    "CONSUMER_SUSPENDED",
    "SERVICE_DISABLED",
    "AccessDeniedException",
];
