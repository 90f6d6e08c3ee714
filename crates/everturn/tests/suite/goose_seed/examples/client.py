import requests
import json
url = 'http://localhost:8080/reply'
headers = {
'Content-Type': 'application/json',
'Authorization': 'Bearer YOUR_API_KEY'
}
data = {
'user_message': {
'role': 'user',
'content': [{
'type': 'text',
'text': 'Explain async/await in Python'
}]
},
'session_id': 'session-abc123'
}
with requests.post(url, json=data, headers=headers, stream=True) as r:
    for line in r.iter_lines():
        if line.startswith(b'data: '):
            event = json.loads(line[6:])
            if event['type'] == 'Message':
                message = event['message']
                for content in message.get('content', []):
                    if content['type'] == 'text':
                        print(content['text'], end='', flush=True)
            elif event['type'] == 'Finish':
                print(f"\n\nFinished: {event['reason']}")
                print(f"Tokens: {event['token_state']['total_tokens']}")
                break
            elif event['type'] == 'Error':
                print(f"Error: {event['error']}")
                break
