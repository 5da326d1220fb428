"""Where the HTML representation of an estimator links to."""


class DocumentationLinkMixin:
    """Link the estimators' HTML representation to our own API pages."""

    _doc_link_module = "skattn"
    _doc_link_template = (
        "https://skattn.readthedocs.io/en/latest/generated/skattn.{estimator_name}.html"
    )
