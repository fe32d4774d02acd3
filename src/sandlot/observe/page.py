"""The frame of an HTML report, with its style for light and dark. It loads nothing from the network."""

from html import escape

_STYLE = """
:root{color-scheme:light dark;--page:#f7f7f5;--card:#fff;--ink:#1c1d1f;--dim:#6c7079;--line:#e3e3df;--blue:#2f6fde;
--green:#17825b;--amber:#b46a00;--violet:#7b4fd0;--red:#c23b3b}@media (prefers-color-scheme:dark){:root{--page:#131416;
--card:#1b1d20;--ink:#e9e9e6;--dim:#969aa3;--line:#2d3035;--blue:#6ea1ff;--green:#4cc38f;--amber:#e2a03f;
--violet:#ac8bf5;--red:#f07b7b}}*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}main{max-width:1180px;margin:0 auto;padding:36px 22px 60px}h1{font-size:30px;
margin:0;letter-spacing:-.01em}h2{font-size:17px;margin:34px 0 8px}h3{font-size:15px;margin:0 0 6px;grid-column:1/-1}h4{
font-size:13px;margin:0 0 4px;color:var(--dim);font-weight:500}.dim,small,figure p{color:var(--dim)}p{margin:4px 0}
.change{display:flex;flex-wrap:wrap;gap:26px;align-items:center;background:var(--card);border:1px solid var(--line);
border-radius:12px;padding:22px 26px;margin:20px 0 14px}.score{display:flex;flex-direction:column}.score b{
font-size:46px;line-height:1.1;font-variant-numeric:tabular-nums;letter-spacing:-.02em}.score em{font-style:normal;
font-variant-numeric:tabular-nums}.score span{color:var(--dim);font-size:13px}.arrow{font-size:32px;color:var(--dim)}
.verdict{flex:1 1 320px;border-left:1px solid var(--line);padding-left:26px}.tiles{display:flex;flex-wrap:wrap;gap:10px}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:10px 16px;flex:1 1 110px}
.tiles b{display:block;font-size:18px;font-variant-numeric:tabular-nums}.tiles span{color:var(--dim);font-size:12.5px}
.alarm{border-left:4px solid var(--red);background:var(--card);padding:12px 16px;border-radius:6px;margin:14px 0;
font-weight:600}.pictures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:14px;
margin-top:14px}figure{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:16px 18px;
margin:0}figure h2{margin:0}figure p{font-size:13px;margin:2px 0 10px}svg{display:block;width:100%;height:auto}svg.bar{
height:30px}.grid{stroke:var(--line)}.tick{fill:var(--dim);font-size:11px;font-variant-numeric:tabular-nums}.legend{
display:flex;flex-wrap:wrap;gap:4px 16px;font-size:13px;color:var(--dim);margin-top:6px}.legend i{display:inline-block;
width:10px;height:10px;border-radius:2px;margin-right:6px}.legend b{color:var(--ink)}.wide{overflow-x:auto;
background:var(--card);border:1px solid var(--line);border-radius:12px;padding:4px 18px}table{border-collapse:collapse;
width:100%;font-variant-numeric:tabular-nums}td,th{padding:7px 14px 7px 0;text-align:right;
border-bottom:1px solid var(--line);white-space:nowrap}tr:last-child td{border-bottom:0}td:first-child,th:first-child{
text-align:left}th{color:var(--dim);font-weight:500;font-size:13px}.up{color:var(--green)}.down{color:var(--red)}.pair{
display:grid;grid-template-columns:1fr 1fr;gap:14px;background:var(--card);border:1px solid var(--line);
border-radius:12px;padding:16px 18px;margin:0 0 14px}.pair div{min-width:0}@media (max-width:720px){.pair{
grid-template-columns:1fr}}pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;
font:12.5px/1.5 ui-monospace,monospace;background:var(--page);border-radius:8px;padding:10px 12px}details{
margin-top:30px}summary{cursor:pointer;color:var(--dim)}code{font:12.5px/1.5 ui-monospace,monospace;
overflow-wrap:anywhere}@media (max-width:640px){main{padding:22px 12px 40px}h1{font-size:24px}.change{gap:14px;
padding:16px}.arrow{display:none}.verdict{border-left:0;padding-left:0}.tiles div{flex:1 1 90px;padding:8px 12px}
.tick{font-size:17px}.wide{padding:4px 12px}td,th{padding:6px 8px 6px 0;white-space:normal;vertical-align:top}
td small{display:block;font-size:11px}td:first-child{overflow-wrap:anywhere}}
"""


def html_page(title: str, body: str) -> str:
    """A whole document around a body of HTML."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )
