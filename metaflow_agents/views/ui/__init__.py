"""What the pages of the web UI show: folds of programs and journals into plain JSON values. Nothing here knows of HTTP."""
