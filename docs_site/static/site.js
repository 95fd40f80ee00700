// The search shows excerpts of the pages that it finds. A browser lets no script read the files beside a page, so a site that
// is opened without a server shows titles alone. Each excerpt would be an error in the console otherwise.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
