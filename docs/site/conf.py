"""Settings of Sphinx for the site; `make docs` runs it on the pages that stage.py puts together."""

import re
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

import reference
import themes
import widen

HERE = Path(__file__).parent

project = "widen"
author = "The widen developers"
project_copyright = author
version = release = widen.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["files"]
myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 4
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # `name` in a docstring is a link where there is a page

autodoc_typehints = "none"  # the docstrings say what is taken, in words
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
default_role = "py:obj"

html_theme = "furo"
html_title = f"widen {release}"
html_static_path = [str(HERE / "static")]
html_css_files = ["widen.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": False}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

INSIDE = (nodes.reference, addnodes.pending_xref)
PUBLIC = re.compile(r"widen(\.\w+)+")
SENTENCE = 40
"""Letters from which the text of a cell is a sentence."""


def link_names(app: Sphinx, doctree: nodes.document) -> None:
    """Make `widen.matmul` in a page a link to its place in the reference, where it has one."""
    for literal in list(doctree.findall(nodes.literal)):
        name = literal.astext().partition("(")[0]
        if not PUBLIC.fullmatch(name) or isinstance(literal.parent, INSIDE):
            continue
        link = addnodes.pending_xref(
            "", literal.deepcopy(), refdomain="py", reftype="obj", reftarget=name,
            refdoc=app.env.docname, refwarn=False,
        )  # fmt: skip
        literal.replace_self(link)


def mark_sentences(app: Sphinx, doctree: nodes.document) -> None:
    """Mark cells of tables with much text, which widen.css keeps wide."""
    for entry in doctree.findall(nodes.entry):
        if len(entry.astext()) > SENTENCE:
            entry["classes"].append("sentence")


def escape(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Keep |x| in a docstring what it is."""
    lines[:] = reference.escaped(lines)


class BothThemes(SphinxTransform):
    """Show both versions of a picture, each in its theme."""

    default_priority: ClassVar[int] = 400

    def apply(self, **options: object) -> None:
        """Put two pictures in the place of one."""
        for image in list(self.document.findall(nodes.image)):
            stem, dot, ending = image["uri"].rpartition(".")
            if ending != "svg":
                continue
            both = []
            for theme in themes.THEMES:
                both.append(image.deepcopy())
                both[-1]["uri"] = f"{stem}-{theme}{dot}{ending}"
                both[-1]["classes"] = [*image["classes"], f"only-{theme}"]
            image.replace_self(both)


def setup(app: Sphinx) -> None:
    """Add what this site has of its own."""
    app.connect("autodoc-process-docstring", escape, priority=100)
    app.connect("doctree-read", link_names)
    app.connect("doctree-read", mark_sentences)
    app.add_transform(BothThemes)
