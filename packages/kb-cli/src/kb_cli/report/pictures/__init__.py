"""Pictures of reports, as SVG and PNG."""
