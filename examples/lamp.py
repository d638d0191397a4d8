"""Pretend lights, a curtain and a speaker, driven by voice: `python examples/lamp.py`. Prints each change as JSON."""

import json
from typing import Annotated, Any, Literal

from famulus.client import App, Names, Range

ROOMS = {"living room": ["客厅", "lounge"], "kitchen": ["厨房"], "bedroom": ["卧室"], "bathroom": ["浴室", "卫生间"]}
ROOMS |= {"office": ["书房", "办公室", "study"], "all": ["所有", "全部", "every"]}
Room = Annotated[Literal["living room", "kitchen", "bedroom", "bathroom", "office", "all"], Names(ROOMS)]
Percent = Annotated[int, Range(0, 100)]
LAMP = "([the|all [the]] [{room}] (light|lights|lamp|lamps)|[the] (light|lights|lamp|lamps) in the {room})"
app = App("lamp", description="Lights, a curtain and a speaker")


def change(say: str, **state: Any) -> str:
    print(json.dumps(state), flush=True)
    return say


# fmt: off
@app.command("light.on", "Turn a light on", sentences={
    "en": [f"(turn|switch|put) on {LAMP}", f"(turn|switch|put) {LAMP} on", f"{LAMP} on"],
    "zh": ["(打开|开|开启)[{room}][的]灯", "把[{room}][的]灯(打开|开|开启)"],
}, examples=["turn on the light", ("it is too dark in the kitchen", {"room": "kitchen"}), "I cannot see", "太暗了"])
def light_on(room: Room = "all") -> str:
    return change("The light is on.", light="on", room=room)
@app.command("light.off", "Turn a light off", sentences={
    "en": [f"(turn|switch|put) off {LAMP}", f"(turn|switch|put) {LAMP} off", f"{LAMP} off"],
    "zh": ["(关掉|关闭|关上|关)[{room}][的]灯", "把[{room}][的]灯(关掉|关闭|关上|关)"],
}, examples=["turn off the lamp", ("nobody needs light in the office", {"room": "office"}), "make it dark", "太亮了"])
def light_off(room: Room = "all") -> str:
    return change("The light is off.", light="off", room=room)
@app.command("light.brightness", "Set how bright the light is, in percent", sentences={
    "en": ["(set|change) [the] [light] brightness to {percent} [percent]", "dim [the] light[s] to {percent} percent"],
    "zh": ["[把](亮度|灯光|灯)(调到|设为|调成)(百分之{percent}|{percent})"],
}, examples=[(f"dim the light to {n} percent", {"percent": n}) for n in (10, 40)] + [("灯光调到一半", {"percent": 50})])
def brightness(percent: Percent) -> str:
    return change(f"Brightness {percent} percent.", brightness=percent)
@app.command("curtain.open", "Open the curtain", sentences={
    "en": ["(open|draw back) [the] (curtain|curtains|blinds)"], "zh": ["(打开|拉开)窗帘", "把窗帘(打开|拉开)"],
}, examples=["open the curtain", "let some daylight in", "draw back the drapes", "让阳光进来"])
def curtain_open() -> str:
    return change("The curtain is open.", curtain="open")
@app.command("curtain.close", "Close the curtain", sentences={
    "en": ["(close|shut) [the] (curtain|curtains|blinds)"], "zh": ["(关上|拉上)窗帘", "把窗帘(关上|拉上)"],
}, examples=["close the curtain", "keep the sun out", "the neighbours can look in", "外面太晒了"])
def curtain_close() -> str:
    return change("The curtain is closed.", curtain="closed")
@app.command("volume.set", "Set the speaker's volume, in percent", sentences={
    "en": ["(set|turn|change) [(up|down)] [the] (volume|sound|music) [(up|down)] to {percent} [percent]"],
    "zh": ["[把](音量|声音)(调到|设为|调成)(百分之{percent}|{percent})"],
}, examples=[("half volume", {"percent": 50}), ("full blast", {"percent": 100}), ("把声音调到一半", {"percent": 50})])
def volume(percent: Percent) -> str:
    return change(f"Volume {percent} percent.", volume=percent)


if __name__ == "__main__":
    app.main()
