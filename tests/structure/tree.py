"""The repository as the structure tests see it."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def tracked(*patterns: str) -> list[Path]:
    """Files of the repository that match any of the git patterns, and new ones that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(path for line in set(listing.splitlines()) if (path := ROOT / line).is_file())


def folders() -> dict[str, set[str]]:
    """Folder -> the folders that it may include, read from the stretto_folder calls of CMakeLists.txt."""
    calls = re.findall(
        r"stretto_(?:folder|program)\(\s*(\w+)\s+(\S+)\s+LINKS([^)]*)\)",
        (ROOT / "CMakeLists.txt").read_text(),
    )
    folder_of: dict[str, str] = {}
    allowed: dict[str, set[str]] = {}
    for name, folder, links in calls:
        direct = [folder_of[target] for target in links.split() if target in folder_of]
        allowed[folder] = {folder}.union(*(allowed[each] for each in direct))
        folder_of[f"stretto_{name}"] = folder
    return allowed


def includes(path: Path) -> list[str]:
    """What a source file includes with quotes, in order."""
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE)
