"""The endpoints: one file a noun. An endpoint asks one service and shows what it says."""
